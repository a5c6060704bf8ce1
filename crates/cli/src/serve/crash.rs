//! Ending the server at a named moment of a delivery, as `kill -9` does. Only tests ask for it, by a flag that no help shows.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use docket_engine::{DeliveryPoint, DeliveryProbe};

/// Where to end, and at the how manieth time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrashAt {
    point: DeliveryPoint,
    time: u64,
}

impl FromStr for CrashAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, time) = text.split_once(':').unwrap_or((text, "1"));
        let point = match word {
            "after_intent" => DeliveryPoint::AfterIntent,
            "after_accepted" => DeliveryPoint::AfterAccepted,
            "before_mark" => DeliveryPoint::BeforeMark,
            _ => {
                return Err(
                    "is after_intent, after_accepted or before_mark, and :N for the Nth time".to_owned(),
                );
            }
        };
        let time = time.parse().map_err(|_| "ends with a number".to_owned())?;
        Ok(Self { point, time })
    }
}

impl CrashAt {
    /// What the engine calls at each moment.
    pub(crate) fn probe(self) -> DeliveryProbe {
        let passed = AtomicU64::new(0);
        Arc::new(move |point| {
            if point == self.point && passed.fetch_add(1, Ordering::SeqCst) + 1 == self.time {
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
                // The signal is delivered before this returns, or at once after.
                std::process::abort();
            }
        })
    }
}
