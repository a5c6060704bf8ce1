//! The export: the log with its seals, as lines that `docket audit verify` proves, in flat memory.
//!
//! An export goes up to the newest seal there is when it begins; what comes after is in it as not sealed yet. In a tenant's export
//! other tenants' entries are hidden behind hashes that cannot be guessed at, so that it can be proved all the same.

use std::collections::VecDeque;

use docket_core::log::LogPosition;
use docket_core::scope::{Operator, Scope};
use docket_core::seal::{self, End, Header, Hidden, Line, Record, SealedEntry, Shown, hide};
use docket_store::table::log;
use docket_store::table::seal::Seal;
use docket_store::{Result, Tx};

use super::seal::{latest, sealable};
use crate::engine::Engine;

/// How many seals are read at once.
const SEALS: u64 = 16;
/// How many entries that are not sealed yet are read at once.
const UNSEALED: u64 = 500;

/// An export under way.
#[derive(Debug)]
pub struct AuditExport {
    engine: Engine,
    tenant: Option<String>,
    head: Option<Seal>,
    seals: VecDeque<Seal>,
    step: Step,
    /// Up to where entries were given.
    position: LogPosition,
    blocks: u64,
    shown: u64,
    unsealed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Header,
    Blocks,
    Unsealed,
    End,
    Over,
}

impl Engine {
    /// Exports the whole log, with everything that proves it.
    pub async fn audit_export(&self, _operator: &Operator) -> Result<AuditExport> {
        self.export(None).await
    }

    /// Exports what is a tenant's, with everything that proves it.
    pub async fn audit_export_of(&self, scope: &Scope) -> Result<AuditExport> {
        self.export(Some(scope.tenant.as_str().to_owned())).await
    }

    async fn export(&self, tenant: Option<String>) -> Result<AuditExport> {
        // What can be sealed is sealed first, so that little is left that nothing proves.
        self.seal().await?;
        Ok(AuditExport {
            head: latest(&self.kernel.store).await?,
            engine: self.clone(),
            tenant,
            seals: VecDeque::new(),
            step: Step::Header,
            position: LogPosition::default(),
            blocks: 0,
            shown: 0,
            unsealed: 0,
        })
    }
}

impl AuditExport {
    /// How many sealed entries there are, those that are hidden among them.
    pub fn entries(&self) -> u64 {
        let head = self.head.as_ref().map(|head| &head.block);
        head.map_or(0, |block| block.before + block.entries)
    }

    /// The next lines, each with its line's end; none at the end.
    pub async fn next(&mut self) -> Result<Option<String>> {
        let lines = match self.step {
            Step::Header => {
                self.step = Step::Blocks;
                let now = self.engine.kernel.clock.now();
                vec![Line::Header(Header::new(self.tenant.clone(), now))]
            }
            Step::Blocks => match self.next_seal().await? {
                Some(seal) => self.block(seal).await?,
                None => {
                    self.step = Step::Unsealed;
                    Vec::new()
                }
            },
            Step::Unsealed => self.unsealed().await?,
            Step::End => {
                self.step = Step::Over;
                vec![Line::End(End {
                    blocks: self.blocks,
                    entries: self.entries(),
                    shown: self.shown,
                    unsealed: self.unsealed,
                    head: self.head.as_ref().map(|head| head.block.hash),
                })]
            }
            Step::Over => return Ok(None),
        };
        let mut text = String::new();
        for line in lines {
            text.push_str(&line.to_text());
            text.push('\n');
        }
        Ok(Some(text))
    }

    async fn next_seal(&mut self) -> Result<Option<Seal>> {
        let head = self.head.as_ref().map_or(0, |head| head.block.number);
        if self.seals.is_empty() && self.blocks < head {
            let limit = SEALS.min(head - self.blocks);
            let params = (self.blocks, limit);
            let read = self.engine.kernel.store.read("audit_seals", params, |tx, p| {
                Box::pin(docket_store::table::seal::after(tx, p.0, p.1))
            });
            self.seals = read.await?.into();
        }
        Ok(self.seals.pop_front())
    }

    async fn block(&mut self, seal: Seal) -> Result<Vec<Line>> {
        let records = self.engine.records(self.position, seal.block.last).await?;
        let own = |record: &Record| self.tenant.is_none() || record.tenant_id == self.tenant;
        let salts: Vec<_> = records
            .iter()
            .map(|record| seal::salt(&seal.secret, record.position))
            .collect();
        let leaves: Vec<_> = records
            .iter()
            .zip(&salts)
            .map(|(record, salt)| (record.hash(*salt), own(record)))
            .collect();
        let mut lines = Vec::new();
        let number = |index: usize| seal.block.before + index as u64 + 1;
        if leaves.iter().any(|(_, own)| *own) {
            let parts = hide(&leaves);
            let mut records: Vec<_> = records.into_iter().map(Some).collect();
            for part in parts {
                match part {
                    Shown::Entry(index) => {
                        let Some(record) = records[index].take() else {
                            continue;
                        };
                        self.shown += 1;
                        lines.push(Line::Entry(Box::new(SealedEntry {
                            number: number(index),
                            salt: salts[index],
                            hash: leaves[index].0,
                            record,
                        })));
                    }
                    Shown::Hidden(index, height, hash) => lines.push(Line::Hidden(Hidden {
                        number: number(index),
                        height,
                        hash,
                    })),
                }
            }
        }
        self.position = seal.block.last;
        self.blocks = seal.block.number;
        lines.push(Line::Seal(seal.block));
        Ok(lines)
    }

    async fn unsealed(&mut self) -> Result<Vec<Line>> {
        let after = self.position;
        let read = self
            .engine
            .kernel
            .store
            .read("audit_unsealed", after, |tx, after| {
                Box::pin(sealable(tx, *after, UNSEALED))
            });
        let entries = read.await?;
        match entries.last() {
            Some(last) => self.position = last.position,
            None => self.step = Step::End,
        }
        let own = |tenant: &Option<String>| self.tenant.is_none() || *tenant == self.tenant;
        let lines: Vec<_> = entries
            .iter()
            .filter(|entry| own(&entry.tenant_id))
            .map(|entry| Line::Unsealed(Box::new(entry.record())))
            .collect();
        self.unsealed += lines.len() as u64;
        Ok(lines)
    }
}

impl Engine {
    /// Everything that stands after one position and up to another, as it would be sealed. A block has a bounded number of entries; of
    /// more than it can have, only the first are read, which is enough to see that there are too many.
    pub(super) async fn records(&self, after: LogPosition, until: LogPosition) -> Result<Vec<Record>> {
        let read = self.kernel.store.read("audit_block", (after, until), |tx, p| {
            Box::pin(records(tx, p.0, p.1))
        });
        read.await
    }
}

async fn records(tx: &mut Tx, after: LogPosition, until: LogPosition) -> Result<Vec<Record>> {
    let entries = log::plain(tx, after, until, seal::BLOCK_MAX + 1).await?;
    Ok(entries.iter().map(log::Entry::record).collect())
}
