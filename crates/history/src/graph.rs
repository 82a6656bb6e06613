//! What must be before what, and the shortest cycle in that. Real time is a row of moments: an operation is
//! before the moment of its end, and after the last moment before its call. So it takes edges as many as
//! there are operations, and not as many as there are pairs of them.

use std::collections::VecDeque;

use longarm_base::Nanos;

use crate::NEVER;
use crate::violation::{Before, Who};

/// How much the search for a short cycle may look at, once it has one: nodes and edges.
const LOOKS: usize = 1 << 24;

#[derive(Clone, Copy)]
struct Edge {
    from: usize,
    to: usize,
    why: Before,
}

/// A deed of a cycle, and why it is before the next.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub deed: usize,
    pub why: Before,
}

/// Deeds, which are numbered from zero, then moments.
pub(crate) struct Graph {
    calls: Vec<Nanos>,
    ends: Vec<Nanos>,
    nodes: usize,
    edges: Vec<Edge>,
}

impl Graph {
    /// Real time alone. Times are closed: what ends at the moment of a call is under way with it.
    pub fn of(deeds: &[Who<'_>]) -> Graph {
        let calls: Vec<Nanos> = deeds.iter().map(|who| who.call()).collect();
        let ends: Vec<Nanos> = deeds.iter().map(|who| who.end()).collect();
        let mut by_call: Vec<usize> = (0..deeds.len()).collect();
        by_call.sort_by_key(|&deed| calls[deed]);
        let mut by_end: Vec<usize> = (0..deeds.len()).filter(|&deed| ends[deed] != NEVER).collect();
        by_end.sort_by_key(|&deed| ends[deed]);
        let mut graph = Graph { calls, ends, nodes: deeds.len(), edges: Vec::new() };
        let (mut by_end, mut moment) = (by_end.into_iter().peekable(), None);
        for deed in by_call {
            let call = graph.calls[deed];
            let mut next = None;
            while let Some(ended) = by_end.next_if(|&ended| graph.ends[ended] < call) {
                let now = *next.get_or_insert(graph.nodes);
                graph.add(ended, now, Before::Ended);
            }
            if let Some(now) = next {
                graph.nodes += 1;
                if let Some(last) = moment.replace(now) {
                    graph.add(last, now, Before::Ended);
                }
            }
            if let Some(now) = moment {
                graph.add(now, deed, Before::Ended);
            }
        }
        graph
    }

    /// One is before another, unless they are the same.
    pub fn add(&mut self, from: usize, to: usize, why: Before) {
        if from != to {
            self.edges.push(Edge { from, to, why });
        }
    }

    /// The shortest cycle that was found, if there is any.
    pub fn cycle(&self) -> Option<Vec<Step>> {
        let out = Out::of(self);
        let left = self.left(&out);
        let some = self.some(&left)?;
        if let Some(pair) = self.pair() {
            return Some(pair);
        }
        let mut shortest = Shortest { graph: self, out: &out, left: &left, looks: LOOKS, best: None };
        some.into_iter().filter(|&node| self.is_deed(node)).for_each(|deed| shortest.through(deed));
        shortest.best
    }

    fn is_deed(&self, node: usize) -> bool {
        node < self.calls.len()
    }

    /// Two of which the later is before the earlier: no cycle is plainer.
    fn pair(&self) -> Option<Vec<Step>> {
        let deeds = self.edges.iter().filter(|edge| self.is_deed(edge.from) && self.is_deed(edge.to));
        let Edge { from, to, why } = *deeds
            .filter(|edge| self.ends[edge.to] < self.calls[edge.from])
            .min_by_key(|edge| (self.ends[edge.from], edge.from, edge.to))?;
        Some(vec![Step { deed: to, why: Before::Ended }, Step { deed: from, why }])
    }

    /// What is left when all are taken away again and again that nothing left is before (Kahn, CACM 1962).
    fn left(&self, out: &Out) -> Vec<bool> {
        let mut before = vec![0_usize; self.nodes];
        self.edges.iter().for_each(|edge| before[edge.to] += 1);
        let mut free: Vec<usize> = (0..self.nodes).filter(|&node| before[node] == 0).collect();
        let mut left = vec![true; self.nodes];
        while let Some(node) = free.pop() {
            left[node] = false;
            for edge in out.of_node(self, node) {
                before[edge.to] -= 1;
                if before[edge.to] == 0 {
                    free.push(edge.to);
                }
            }
        }
        left
    }

    /// The nodes of some cycle: each that is left has another that is left before it.
    fn some(&self, left: &[bool]) -> Option<Vec<usize>> {
        let mut before = vec![None; self.nodes];
        for edge in self.edges.iter().filter(|edge| left[edge.from] && left[edge.to]) {
            before[edge.to].get_or_insert(edge.from);
        }
        let mut node = (0..self.nodes).find(|&node| left[node])?;
        let mut walked = vec![false; self.nodes];
        while !walked[node] {
            walked[node] = true;
            node = before[node]?;
        }
        let (first, mut cycle) = (node, Vec::new());
        loop {
            cycle.push(node);
            node = before[node]?;
            if node == first {
                return Some(cycle);
            }
        }
    }
}

/// The edges that leave each node.
struct Out {
    begins: Vec<usize>,
    edges: Vec<usize>,
}

impl Out {
    fn of(graph: &Graph) -> Out {
        let mut begins = vec![0; graph.nodes + 1];
        graph.edges.iter().for_each(|edge| begins[edge.from + 1] += 1);
        (0..graph.nodes).for_each(|node| begins[node + 1] += begins[node]);
        let (mut next, mut edges) = (begins.clone(), vec![0; graph.edges.len()]);
        for (at, edge) in graph.edges.iter().enumerate() {
            edges[next[edge.from]] = at;
            next[edge.from] += 1;
        }
        Out { begins, edges }
    }

    fn of_node<'a>(&'a self, graph: &'a Graph, node: usize) -> impl Iterator<Item = &'a Edge> {
        self.edges[self.begins[node]..self.begins[node + 1]].iter().map(|&at| &graph.edges[at])
    }

    fn numbers(&self, node: usize) -> &[usize] {
        &self.edges[self.begins[node]..self.begins[node + 1]]
    }
}

/// The search for a cycle of few deeds.
struct Shortest<'a> {
    graph: &'a Graph,
    out: &'a Out,
    left: &'a [bool],
    looks: usize,
    best: Option<Vec<Step>>,
}

impl Shortest<'_> {
    /// Looks for a shorter cycle through a deed. Moments count for nothing.
    fn through(&mut self, start: usize) {
        if self.best.is_some() && self.looks == 0 {
            return;
        }
        self.looks = self.looks.saturating_sub(self.graph.nodes);
        let most = self.best.as_ref().map_or(usize::MAX, Vec::len);
        let mut deeds = vec![usize::MAX; self.graph.nodes];
        let mut by: Vec<Option<usize>> = vec![None; self.graph.nodes];
        let mut open = VecDeque::from([(start, 0)]);
        while let Some((node, count)) = open.pop_front() {
            if node == start && by[start].is_some() {
                self.best = Some(self.back(start, &by));
                return;
            }
            // A node may stand here twice, the first time with fewer deeds.
            if node != start && count > deeds[node] {
                continue;
            }
            for &number in self.out.numbers(node) {
                self.looks = self.looks.saturating_sub(1);
                let to = self.graph.edges[number].to;
                let count = count + usize::from(self.graph.is_deed(to));
                if !self.left[to] || count >= deeds[to] || count >= most {
                    continue;
                }
                (deeds[to], by[to]) = (count, Some(number));
                match self.graph.is_deed(to) {
                    true => open.push_back((to, count)),
                    false => open.push_front((to, count)),
                }
            }
        }
    }

    /// The way by which the start was reached again.
    fn back(&self, start: usize, by: &[Option<usize>]) -> Vec<Step> {
        let (mut steps, mut node) = (Vec::new(), start);
        while let Some(edge) = by[node].map(|number| self.graph.edges[number]) {
            node = edge.from;
            if self.graph.is_deed(node) {
                steps.push(Step { deed: node, why: edge.why });
            }
            if node == start {
                break;
            }
        }
        steps.reverse();
        steps
    }
}
