//! The check of the database against its own seals: finds what was changed behind Docket's back, past the triggers.

use docket_core::log::LogPosition;
use docket_core::scope::Operator;
use docket_core::seal::{self, Block, FaultKind, MARK_LENGTH, Record, Report, Tree};
use docket_store::Result;
use docket_store::table::seal::Seal;

use super::seal::sealable;
use crate::engine::Engine;

/// What is wrong with the log in the database: the first thing that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFault {
    /// The block.
    pub block: u64,
    /// What kind it is.
    pub kind: FaultKind,
    /// The entry, or the one before it where it is gone.
    pub position: Option<LogPosition>,
    /// What is wrong, in words.
    pub text: String,
}

/// How many entries that are not sealed yet are counted at once.
const COUNTED: u64 = 1_000;

impl Engine {
    /// Checks every sealed entry against its seal, and the seals against each other. `progress` hears how many entries were
    /// checked, and of how many.
    pub async fn audit_verify(
        &self,
        _operator: &Operator,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<std::result::Result<Report, AuditFault>> {
        let store = &self.kernel.store;
        let head = super::seal::latest(store).await?.map(|seal| seal.block);
        let (total, number) = head
            .as_ref()
            .map_or((0, 0), |block| (block.before + block.entries, block.number));
        let mut previous: Option<Block> = None;
        while previous.as_ref().map_or(0, |block| block.number) < number {
            let after = previous.as_ref().map_or(0, |block| block.number);
            let read = store.read("audit_seal", after, |tx, after| {
                Box::pin(docket_store::table::seal::after(tx, *after, 1))
            });
            let Some(seal) = read.await?.pop() else { break };
            if let Err(text) = seal.block.check_after(previous.as_ref()) {
                let block = after + 1;
                let (kind, position) = (FaultKind::Seal, None);
                return Ok(Err(AuditFault {
                    block,
                    kind,
                    position,
                    text,
                }));
            }
            let begin = previous.as_ref().map_or_else(before_all, |block| block.last);
            let records = self.records(begin, seal.block.last).await?;
            if let Err(fault) = check_block(&seal, &records, previous.as_ref().map(|block| block.last)) {
                return Ok(Err(fault));
            }
            progress(seal.block.before + seal.block.entries, total);
            previous = Some(seal.block);
        }
        let last = previous
            .as_ref()
            .map_or_else(LogPosition::default, |block| block.last);
        Ok(Ok(Report {
            tenant: None,
            blocks: number,
            entries: total,
            shown: total,
            unsealed: self.count_unsealed(last).await?,
            head: previous.map(|block| block.hash),
            head_found: None,
        }))
    }

    async fn count_unsealed(&self, mut after: LogPosition) -> Result<u64> {
        let mut count = 0;
        loop {
            let read = self.kernel.store.read("audit_count", after, |tx, after| {
                Box::pin(sealable(tx, *after, COUNTED))
            });
            let entries = read.await?;
            let Some(last) = entries.last() else {
                return Ok(count);
            };
            (after, count) = (last.position, count + entries.len() as u64);
        }
    }
}

/// Before every entry, also before one that somebody has put at the very beginning.
const fn before_all() -> LogPosition {
    LogPosition {
        tx: i64::MIN,
        id: i64::MIN,
    }
}

/// Compares what is there with the marks of what was sealed: the first that differs was changed, or is missing, or was added, by
/// what the entries after it say.
fn check_block(
    seal: &Seal,
    records: &[Record],
    passed: Option<LogPosition>,
) -> std::result::Result<(), AuditFault> {
    let hashes: Vec<_> = records
        .iter()
        .map(|record| record.hash(seal::salt(&seal.secret, record.position)))
        .collect();
    let found: Vec<_> = hashes.iter().map(|hash| seal::mark(*hash)).collect();
    let sealed: Vec<_> = seal.marks.chunks(MARK_LENGTH).collect();
    let number = seal.block.number;
    let fault = |kind, position: Option<LogPosition>, text: String| AuditFault {
        block: number,
        kind,
        position,
        text,
    };
    let same = found
        .iter()
        .zip(&sealed)
        .take_while(|(found, sealed)| found.as_slice() == **sealed);
    let at = same.count();
    if at < found.len() || at < sealed.len() {
        let is = |found_at: usize, sealed_at: usize| {
            let (found, sealed) = (found.get(found_at), sealed.get(sealed_at));
            found.map(<[u8; MARK_LENGTH]>::as_slice) == sealed.copied()
        };
        let entry = seal.block.before + at as u64 + 1;
        let here = records.get(at).map(|record| (record.position, &record.action));
        let before = match at.checked_sub(1).and_then(|at| records.get(at)) {
            Some(record) => Some(record.position),
            None => passed,
        };
        return Err(match here {
            Some((position, action)) if found.len() > sealed.len() || is(at + 1, at) => fault(
                FaultKind::Added,
                Some(position),
                format!("the entry {position} ({action}) was added to block {number} after it was sealed"),
            ),
            Some((position, action)) if found.len() == sealed.len() => fault(
                FaultKind::Changed,
                Some(position),
                format!(
                    "entry {entry} ({position}, {action}) was changed after it was sealed in block {number}"
                ),
            ),
            here => {
                let after = before.map_or_else(String::new, |position| format!(" after {position}"));
                let until = here.map_or_else(String::new, |(position, _)| format!(" and before {position}"));
                fault(
                    FaultKind::Missing,
                    before,
                    format!("entry {entry}, sealed in block {number}, is missing{after}{until}"),
                )
            }
        });
    }
    let mut tree = Tree::default();
    hashes.iter().for_each(|hash| tree.push_leaf(*hash));
    if tree.root() != seal.block.root || tree.leaves() != seal.block.entries {
        let (first, last) = (seal.block.first, seal.block.last);
        return Err(fault(
            FaultKind::Changed,
            Some(first),
            format!(
                "the entries of block {number} ({first} to {last}) are not those that were sealed, and its marks were changed with them"
            ),
        ));
    }
    Ok(())
}
