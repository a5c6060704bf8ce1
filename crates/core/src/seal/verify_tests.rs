//! The check against an export that somebody has had in hand.

use super::tests::record;
use super::*;
use crate::content::Digest;

fn at(id: i64) -> LogPosition {
    LogPosition { tx: 7, id }
}

/// An export of three blocks with four, five and three entries, two of each five being bolt's, and two entries more.
fn export(tenant: Option<&str>) -> Vec<String> {
    let header = Header {
        format: "docket-audit-1".to_owned(),
        tenant: tenant.map(str::to_owned),
        exported_at_ms: 5,
    };
    let (mut lines, mut id, mut shown) = (vec![Line::Header(header)], 0, 0);
    let mut previous: Option<Block> = None;
    let sees = |record: &Record| tenant.is_none() || record.tenant_id.as_deref() == tenant;
    for entries in [4, 5, 3] {
        let (secret, first) = ([entries as u8; 32], id + 1);
        let mut tree = Tree::default();
        let sealed: Vec<_> = (0..entries)
            .map(|_| {
                id += 1;
                let mut record = record(id);
                record.tenant_id = Some(if id % 5 < 2 { "bolt" } else { "acme" }.to_owned());
                let salt = salt(&secret, record.position);
                let hash = record.hash(salt);
                tree.push_leaf(hash);
                SealedEntry {
                    number: id as u64,
                    salt,
                    hash,
                    record,
                }
            })
            .collect();
        let leaves: Vec<_> = sealed
            .iter()
            .map(|entry| (entry.hash, sees(&entry.record)))
            .collect();
        for part in hide(&leaves) {
            lines.push(match part {
                Shown::Entry(index) => {
                    shown += 1;
                    Line::Entry(Box::new(sealed[index].clone()))
                }
                Shown::Hidden(index, height, hash) => Line::Hidden(Hidden {
                    number: sealed[index].number,
                    height,
                    hash,
                }),
            });
        }
        let block = Block::after(
            previous.as_ref(),
            (at(first), at(id)),
            &tree,
            Timestamp::from_ms(9),
        );
        lines.push(Line::Seal(block.clone()));
        previous = Some(block);
    }
    lines.extend([13, 14].map(|id| Line::Unsealed(Box::new(record(id)))));
    let head = previous.map(|block| block.hash);
    lines.push(Line::End(End {
        blocks: 3,
        entries: 12,
        shown,
        unsealed: 2,
        head,
    }));
    lines.iter().map(Line::to_text).collect()
}

fn check(lines: &[String], head: Option<Digest>) -> Result<Report, Fault> {
    let mut verifier = Verifier::new(head);
    lines.iter().try_for_each(|line| verifier.take(line))?;
    verifier.finish()
}

fn fault(lines: &[String]) -> Fault {
    check(lines, None).unwrap_err()
}

#[test]
fn a_whole_export_is_proved() {
    let report = check(&export(None), None).unwrap();
    assert_eq!(
        (report.blocks, report.entries, report.shown, report.unsealed),
        (3, 12, 12, 2)
    );
    let head = report.head.unwrap();
    assert_eq!(check(&export(None), Some(head)).unwrap().head_found, Some(true));
}

#[test]
fn a_tenants_export_is_proved_without_anothers_entries() {
    for tenant in ["acme", "bolt", "nobody"] {
        let lines = export(Some(tenant));
        let others = if tenant == "acme" { "bolt" } else { "acme" };
        // The two unsealed ones of this export are acme's.
        assert!(
            lines
                .iter()
                .filter(|line| line.contains("entry"))
                .all(|line| !line.contains(&format!("\"{others}\"")))
        );
        let report = check(&lines, None).unwrap();
        assert_eq!((report.blocks, report.entries), (3, 12), "{tenant}");
        assert_eq!(
            report.head,
            check(&export(None), None).unwrap().head,
            "the head is everybody's"
        );
        // A block without any own entry may as well be left out whole.
        for at in (1..lines.len() - 1).filter(|at| !lines[*at].starts_with("{\"hidden")) {
            let mut dropped = lines.clone();
            dropped.remove(at);
            fault(&dropped);
        }
    }
}

#[test]
fn the_entry_that_was_changed_is_named() {
    let whole = export(None);
    for (line, id) in [(1, 1), (4, 4), (6, 5), (8, 7)] {
        let mut changed = whole.clone();
        changed[line] = changed[line].replace("producer:ben", "producer:eve");
        let fault = fault(&changed);
        assert_eq!(
            (fault.kind, fault.position, fault.line),
            (FaultKind::Changed, Some(at(id)), line as u64 + 1),
            "{fault}"
        );
        assert!(fault.to_string().contains("was changed"), "{fault}");
    }
}

#[test]
fn the_entry_that_is_missing_is_named() {
    let whole = export(None);
    for (line, number) in [(1, 1), (2, 2), (4, 4), (6, 5), (10, 9), (12, 10)] {
        let mut dropped = whole.clone();
        dropped.remove(line);
        let fault = fault(&dropped);
        assert_eq!(fault.kind, FaultKind::Missing, "{line}: {fault}");
        assert!(
            fault.text.contains(&format!("entry {number} is missing")),
            "{fault}"
        );
    }
}

#[test]
fn the_entry_that_was_added_is_named() {
    let whole = export(None);
    let mut doubled = whole.clone();
    doubled.insert(3, whole[2].clone());
    let found = fault(&doubled);
    assert_eq!(
        (found.kind, found.position, found.line),
        (FaultKind::Added, Some(at(2)), 4),
        "{found}"
    );
    // Made up, with the hash of another.
    let mut made_up = whole.clone();
    made_up.insert(3, whole[3].replace("producer:ben", "producer:eve"));
    let found = fault(&made_up);
    assert_eq!((found.kind, found.line), (FaultKind::Added, 4), "{found}");
    let mut after_the_end = whole.clone();
    after_the_end.push(whole[2].clone());
    assert_eq!(fault(&after_the_end).kind, FaultKind::Added);
    let mut late = whole;
    late.insert(15, late[2].clone());
    assert_eq!(fault(&late).kind, FaultKind::Added);
}

#[test]
fn the_entries_that_were_swapped_are_named() {
    let whole = export(None);
    for line in [1, 2, 3, 6, 9] {
        let mut swapped = whole.clone();
        swapped.swap(line, line + 1);
        let fault = fault(&swapped);
        assert_eq!(
            (fault.kind, fault.line),
            (FaultKind::Reordered, line as u64 + 1),
            "{fault}"
        );
    }
    let mut numbers_too = whole;
    numbers_too[2] = numbers_too[2].replace("\"number\":2", "\"number\":3");
    numbers_too[3] = numbers_too[3].replace("\"number\":3", "\"number\":2");
    numbers_too.swap(2, 3);
    assert_eq!(fault(&numbers_too).kind, FaultKind::Reordered);
}

#[test]
fn a_seal_that_was_changed_dropped_or_swapped_is_named() {
    let whole = export(None);
    let seals: Vec<_> = (0..whole.len())
        .filter(|line| whole[*line].starts_with("{\"seal"))
        .collect();
    assert_eq!(seals, [5, 11, 15]);
    for line in &seals {
        let mut changed = whole.clone();
        changed[*line] = changed[*line].replace("\"sealedAtMs\":9", "\"sealedAtMs\":8");
        let found = fault(&changed);
        assert_eq!(
            (found.kind, found.line),
            (FaultKind::Seal, *line as u64 + 1),
            "{found}"
        );
        let mut dropped = whole.clone();
        dropped.remove(*line);
        fault(&dropped);
    }
    let mut swapped = whole;
    swapped.swap(5, 11);
    assert_eq!(fault(&swapped).kind, FaultKind::Seal);
}

#[test]
fn an_entry_changed_with_its_hash_is_found_by_its_block() {
    let mut lines = export(None);
    let Line::Entry(mut entry) = serde_json::from_str(&lines[7]).unwrap() else {
        panic!("line 8 is an entry")
    };
    entry.record.actor = "producer:eve".to_owned();
    entry.hash = entry.record.hash(entry.salt);
    lines[7] = Line::Entry(entry).to_text();
    let fault = fault(&lines);
    assert_eq!(fault.kind, FaultKind::Changed);
    assert!(fault.text.contains("block 2 (7-5 to 7-9)"), "{fault}");
}

#[test]
fn what_is_cut_off_is_found() {
    let whole = export(None);
    for lines in 0..whole.len() {
        fault(&whole[..lines]);
    }
    // Cut at a block, with an end that fits: only the head tells.
    let head = check(&whole, None).unwrap().head;
    let mut short = whole[..12].to_vec();
    let Line::Seal(second) = serde_json::from_str(&whole[11]).unwrap() else {
        panic!("line 12 is a seal")
    };
    let end = End {
        blocks: 2,
        entries: 9,
        shown: 9,
        unsealed: 0,
        head: Some(second.hash),
    };
    short.push(Line::End(end).to_text());
    assert_eq!(check(&short, None).unwrap().blocks, 2);
    assert_eq!(check(&short, head).unwrap_err().kind, FaultKind::OtherHead);
    assert_eq!(
        check(&whole, Some(second.hash)).unwrap().head_found,
        Some(true),
        "an older head is as good"
    );
}

#[test]
fn what_is_no_export_is_said_to_be_none() {
    for text in ["", "{}", "[]", "{\"entry\":{}}", "nonsense", &"[".repeat(10_000)] {
        assert_eq!(fault(&[text.to_owned()]).kind, FaultKind::Malformed, "{text:.20}");
    }
    assert_eq!(fault(&[]).kind, FaultKind::CutOff);
}
