//! A task: code with a stack of its own, which stops when it waits and goes on where it stopped.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a stack. Pages that no task touches cost nothing.
const STACK: usize = 1 << 20;
/// The most stacks of finished tasks that are kept for others: to map a stack costs more than most tasks do.
const SPARE: usize = 64;

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

fn stack() -> DefaultStack {
    let spare = STACKS.with_borrow_mut(Vec::pop);
    spare.unwrap_or_else(|| DefaultStack::new(STACK).expect("memory for a stack"))
}

/// Keeps the stack of a coroutine that is over. A thread that ends keeps none.
fn keep(over: Coroutine<(), (), Ended>) {
    let stack = over.into_stack();
    let _ = STACKS.try_with(|stacks| {
        let mut stacks = stacks.borrow_mut();
        if stacks.len() < SPARE {
            stacks.push(stack);
        }
    });
}

/// How a task ended.
pub type Ended = Result<(), Box<dyn Any + Send>>;

/// Where a running task finds its way out.
#[derive(Debug, Default)]
struct Exit {
    yielder: Cell<Option<NonNull<Yielder<(), ()>>>>,
    /// Whether the task is being unwound because it was dropped, which is no panic of its own.
    dropped: Cell<bool>,
}

/// A task that runs only when it is told to.
pub struct Task {
    /// `None` while it runs.
    coroutine: Option<Coroutine<(), (), Ended>>,
    exit: Rc<Exit>,
}

/// The way out of a running task; kept by the world, used by what the task calls.
#[derive(Clone, Debug)]
pub struct Way(Rc<Exit>);

impl Task {
    /// A task that will run `body`.
    pub fn new(body: Box<dyn FnOnce()>) -> Task {
        let exit = Rc::new(Exit::default());
        let way = exit.clone();
        let coroutine = Coroutine::with_stack(stack(), move |yielder: &Yielder<(), ()>, ()| {
            way.yielder.set(Some(NonNull::from(yielder)));
            let ended = catch_unwind(AssertUnwindSafe(body));
            match ended {
                Err(unwinding) if way.dropped.get() => resume_unwind(unwinding),
                ended => ended,
            }
        });
        Task { coroutine: Some(coroutine), exit }
    }

    /// Its way out.
    pub fn way(&self) -> Way {
        Way(self.exit.clone())
    }

    /// Lets it run until it waits (`None`) or ends.
    pub fn run(&mut self) -> Option<Ended> {
        let coroutine = self.coroutine.as_mut().expect("a task that ended does not run");
        match coroutine.resume(()) {
            CoroutineResult::Yield(()) => None,
            CoroutineResult::Return(ended) => {
                self.coroutine.take().into_iter().for_each(keep);
                Some(ended)
            }
        }
    }
}

impl Drop for Task {
    /// Drops what stands on the task's stack, as when a thread panics.
    fn drop(&mut self) {
        self.exit.dropped.set(true);
        if let Some(mut coroutine) = self.coroutine.take() {
            coroutine.force_unwind();
            keep(coroutine);
        }
    }
}

impl Way {
    /// Leaves the running task, which must be this one; returns when it is run again. While a task is being
    /// dropped nothing waits any more.
    pub fn out(&self) {
        if self.0.dropped.get() {
            return;
        }
        let yielder = self.0.yielder.get().expect("a task that runs has set its way out");
        // SAFETY: the yielder lives on the stack of this task's coroutine, at a place that does not move, for
        // as long as its body runs; the body is running, as it called us, and all tasks are of one thread.
        unsafe { yielder.as_ref() }.suspend(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_stops_goes_on_and_ends() {
        let steps = Rc::new(Cell::new(0));
        let (counted, found) = (steps.clone(), Rc::new(Cell::new(None::<Way>)));
        let way = found.clone();
        let mut task = Task::new(Box::new(move || {
            let way = way.take().expect("set before the first run");
            for _ in 0..3 {
                counted.set(counted.get() + 1);
                way.out();
            }
        }));
        found.set(Some(task.way()));
        for step in 1..=3 {
            assert!(task.run().is_none() && steps.get() == step);
        }
        assert!(matches!(task.run(), Some(Ok(()))));
    }

    #[test]
    fn a_panic_ends_the_task_alone() {
        let mut task = Task::new(Box::new(|| panic!("on purpose")));
        let ended = task.run().expect("ended").expect_err("panicked");
        assert_eq!(ended.downcast_ref::<&str>(), Some(&"on purpose"));
    }

    #[test]
    fn a_dropped_task_drops_what_it_holds_and_waits_no_more() {
        struct Held(Rc<Cell<bool>>, Way);
        impl Drop for Held {
            fn drop(&mut self) {
                self.1.out();
                self.0.set(true);
            }
        }
        let dropped = Rc::new(Cell::new(false));
        let (seen, found) = (dropped.clone(), Rc::new(Cell::new(None::<Way>)));
        let way = found.clone();
        let mut task = Task::new(Box::new(move || {
            let way = way.take().expect("set before the first run");
            let held = Held(seen, way.clone());
            way.out();
            drop(held);
            unreachable!("it is dropped before");
        }));
        found.set(Some(task.way()));
        assert!(task.run().is_none() && !dropped.get());
        drop(task);
        assert!(dropped.get());
    }
}
