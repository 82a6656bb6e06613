//! Markers that nobody needs any more go, leaf by leaf, and neighbours that have become small become one.
//!
//! A marker keeps an older put of its key away that comes later, of another stream. Once all writes up to its
//! version are in the tree, none will come.

use longarm_memory::OwnedWords;

use super::edit;
use super::encode::{Frame, Item, encode, items, size};
use super::layout::Pointer;
use super::node::{NodeView, SplitKey};
use super::owner::{Owner, Swept, record_of};
use super::path::{Path, Target};
use super::rules::Ages;

impl<M: OwnedWords, A: Ages> Owner<M, A> {
    pub(super) fn sweep(&mut self, leaves: usize) -> Swept {
        let mut swept = Swept::default();
        while swept.leaves < leaves && !swept.wrapped {
            let cursor = std::mem::take(&mut self.cursor);
            let mut path = self.find(Target::Key(&cursor), 0);
            swept.markers += self.drop_markers(path.end());
            while self.merge_on(&mut swept, &path) {
                path = self.find(Target::Key(&cursor), 0);
                swept.markers += self.drop_markers(path.end());
            }
            let at = self.cache.load(path.end());
            match self.cache.view(at).high() {
                Some(high) => self.cursor = high.to_vec(),
                None => swept.wrapped = true,
            }
            swept.leaves += 1;
        }
        swept
    }

    fn drop_markers(&mut self, leaf: Pointer) -> u64 {
        let at = self.cache.load(leaf);
        let mut dropped = 0;
        for i in (0..self.cache.view(at).count()).rev() {
            let record = record_of(&self.cache.view(at), i);
            if record.is_marker() && record.csn <= self.stable {
                self.cache.edit(at, |bytes| Some(edit::remove(bytes, i)));
                dropped += 1;
            }
        }
        self.markers -= dropped;
        dropped
    }

    /// Merges the leaf at the end of a way and each of its parents with their right neighbours, where these
    /// are small; whether it did anything.
    fn merge_on(&mut self, swept: &mut Swept, path: &Path) -> bool {
        let (leaf, before) = (path.last(), swept.merged);
        // What the neighbour does not need either must not keep the two apart.
        if let Some(right) = self.right_sibling(path, leaf) {
            swept.markers += self.drop_markers(right);
        }
        for depth in (1..=leaf).rev() {
            swept.merged += usize::from(self.merge(path, depth));
        }
        while self.root.level > 0 {
            let at = self.cache.load(self.root);
            let view = self.cache.view(at);
            if view.count() > 0 {
                break;
            }
            let child = view.child(0).expect("an inner node has a child");
            let old = std::mem::replace(&mut self.root, child);
            let generation = self.places.give_back(old);
            self.cache.retire(old, generation);
            self.forget_ways();
            swept.merged += 1;
        }
        swept.merged > before
    }

    /// A node's right neighbour, if both have one parent.
    fn right_sibling(&mut self, path: &Path, depth: usize) -> Option<Pointer> {
        let parent = depth.checked_sub(1)?;
        let at = self.cache.load(path.node(parent));
        let (view, child) = (self.cache.view(at), path.child(parent));
        if child < view.count() { view.child(child + 1) } else { None }
    }

    /// Puts all of a node's right neighbour into the node, if both have one parent and half the node is
    /// enough for that.
    fn merge(&mut self, path: &Path, depth: usize) -> bool {
        let Some(right) = self.right_sibling(path, depth) else { return false };
        let (left, parent, child) = (path.node(depth), path.node(depth - 1), path.child(depth - 1));
        let at = self.cache.load(left);
        let first = self.cache.view(at).bytes().to_vec();
        let half = first.len() / 2;
        let other = self.cache.load(right);
        if NodeView::of(&first).used() > half || self.cache.view(other).used() > half {
            return false;
        }
        let second = self.cache.view(other).bytes().to_vec();
        let (mine, theirs) = (NodeView::of(&first), NodeView::of(&second));
        let mut all = items(&mine, |_, _| true);
        if mine.level() > 0 {
            all.push(Item { key: SplitKey::whole(theirs.low()), payload: theirs.first_child_bytes() });
        }
        all.extend(items(&theirs, |_, _| true));
        let end = Frame::of(&theirs);
        let frame = Frame { high: end.high, right: end.right, ..Frame::of(&mine) };
        if size(&frame, &all) > half {
            return false;
        }
        encode(self.cache.change(at), &frame, &all);
        let above = self.cache.load(parent);
        self.cache.edit(above, |bytes| Some(edit::remove(bytes, child)));
        self.release(right);
        true
    }
}
