//! All nodes of groups that acknowledge from memory are killed at one time: the groups lose their last
//! writes, and go on from their disks. The run notes when, and looks at all keys afterwards, so that the
//! judges know what came back.

use longarm::cluster::NodeId;
use longarm::connect;
use longarm::output::{Exit, Failure};
use longarm_base::Nanos;
use longarm_base::limits::LOSS_WINDOW;
use longarm_host::now;

use super::Torture;
use crate::client::{Way, look_at_all};
use crate::looks::LOOKER;
use crate::report::Losses;

/// How long a thread of a replica may wait for its core between a look at the window and the write that it
/// takes: a machine with few cores and many processes lets it wait.
const SLACK: Nanos = Nanos::from_millis(100);

impl Torture {
    /// All nodes are about to be killed. As often as not clients begin nothing more until all keys were
    /// looked at, so that what came back is seen before it is written again.
    pub(super) fn expect_loss(&mut self) {
        self.cold.expect(self.replicas.cluster().nodes.iter().map(|member| member.node));
        self.stage.hold(self.chance.modulo(2) == 0);
    }

    /// A node is started again.
    pub(super) fn bring_back(&mut self, node: NodeId) -> Result<(), Failure> {
        self.cold.back(node, now(), self.options.timing.promise);
        self.start(node)
    }

    /// Gets all keys that clients may have written last, before others write them again.
    pub(super) fn look_back(&mut self) -> Result<(), Failure> {
        let options = connect::options(&self.config(), "longarm-chaos: what came back")?;
        let way = Way { options, ..self.way.clone() };
        let rounds = way.names.recent(self.stage.round());
        let (left, counts) = look_at_all(&way, &self.stage, LOOKER, rounds).map_err(|error| {
            Failure::new(Exit::Corrupt, format!("all is well again after a loss, and yet: {error}"))
        })?;
        self.cold.saw(left, counts);
        self.stage.hold(false);
        Ok(())
    }

    /// The losses, as the judges are to know of them.
    pub(super) fn losses(&self) -> Losses {
        Losses {
            at: self.cold.losses().to_vec(),
            window: Nanos(LOSS_WINDOW.as_nanos() as u64) + SLACK,
            groups: self.options.groups.into(),
            names: self.way.names.clone(),
        }
    }
}
