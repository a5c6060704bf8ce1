//! What operators do, by the book: pauses, limits and pipelines (rule P13).

use docket_core::pipeline::Pipeline;
use docket_core::tenant::UploadLimit;

use super::state::{Model, Pause, Paused};
use super::work::Code;

impl Model {
    /// A pause; a lane that does not exist cannot be paused.
    pub(super) fn pause(&mut self, of: Option<Paused>) -> Result<usize, Code> {
        let of = of.ok_or("not_found")?;
        self.pauses.push(Pause {
            id: None,
            of,
            lifted: false,
        });
        Ok(self.pauses.len() - 1)
    }

    /// The pause that a number means: with an even one a pause that stands, if there is one.
    pub(super) fn pause_meant(&self, n: u8) -> Option<usize> {
        let all = 0..self.pauses.len();
        let standing: Vec<_> = all.clone().filter(|pause| !self.pauses[*pause].lifted).collect();
        let meant = if n.is_multiple_of(2) {
            standing
        } else {
            all.collect()
        };
        meant.get(usize::from(n / 2) % meant.len().max(1)).copied()
    }

    /// Lifts a pause, once.
    pub(super) fn resume(&mut self, pause: usize) -> Result<(), Code> {
        if self.pauses[pause].lifted {
            return Err("not_found");
        }
        self.pauses[pause].lifted = true;
        Ok(())
    }

    /// Sets a tenant's limits.
    pub(super) fn limits(&mut self, tenant: u8, jobs: u32, uploads: UploadLimit) {
        let tenant = &mut self.tenants[usize::from(tenant)];
        tenant.jobs = jobs;
        tenant.uploads = uploads;
    }

    /// Changes a pipeline; the number of its version. Saying the same again makes no new one.
    pub(super) fn define(&mut self, pipeline: u8, definition: Pipeline) -> usize {
        let versions = &mut self.pipelines[usize::from(pipeline)];
        if versions.last() != Some(&definition) {
            versions.push(definition);
        }
        versions.len()
    }
}
