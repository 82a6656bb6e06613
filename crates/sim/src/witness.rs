//! The witness of a run's world, which tells the judge and the traps what happens, and counts the terms that
//! served.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use longarm_base::Term;
use longarm_host::observe::Observation;

use crate::judge::Judge;
use crate::stumbles::Stumbles;
use crate::traps::Traps;
use crate::world::{Witness, Witnessed};

/// Makes the witness. It tells the judge, if there is one, what happens, and says where a trap springs.
/// `adoptions` checks what a replica holds that takes over a start set. `stumbles` has workers lose their
/// cores for a moment.
pub fn witness(
    judge: Option<Rc<RefCell<Judge>>>,
    traps: Rc<RefCell<Traps>>,
    served: Rc<Cell<u32>>,
    adoptions: Option<impl Fn(u32, Term) -> Result<(), String> + 'static>,
    stumbles: Option<Stumbles>,
) -> Witness {
    let stumbles = stumbles.map(RefCell::new);
    let shown = std::env::var("LONGARM_SIM_LOG").is_ok_and(|log| log == "events");
    Rc::new(move |time, machine, event| {
        if shown {
            eprintln!("{:>12} {machine}: {event:?}", time.0);
        }
        if let Observation::Served { .. } = event {
            served.set(served.get() + 1);
        }
        if let Some(judge) = &judge {
            let mut judge = judge.borrow_mut();
            judge.hear(time, machine, event);
            if let Observation::Adopted { term } = event
                && judge.is_led(*term)
                && let Some(Err(violated)) = adoptions.as_ref().map(|agrees| agrees(machine, *term))
            {
                judge.blame(time, &violated);
            }
        }
        let goes_on = traps.borrow_mut().hear(event);
        let stumbles = stumbles.as_ref().filter(|_| goes_on == Witnessed::GoesOn);
        stumbles.and_then(|stumbles| stumbles.borrow_mut().draw(event)).map_or(goes_on, Witnessed::Stalls)
    })
}
