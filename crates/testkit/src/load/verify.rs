//! Holds the facts of a load against the tables, once everything was worked off.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use docket_core::content::Digest;

use super::Fact;
use crate::Plain;

/// Holds the facts against the tables, once everything was worked off: all that was acknowledged is there, nothing is
/// there twice, nothing was given out twice with one token, and nothing ran to completion twice.
pub async fn verify(plain: &Plain, facts: &[Fact]) {
    let wrong: Vec<_> = facts
        .iter()
        .filter(|fact| matches!(fact, Fact::Wrong(_)))
        .collect();
    assert!(
        wrong.is_empty(),
        "the engine said what it must never say: {wrong:#?}"
    );

    let items: BTreeMap<String, String> = plain
        .rows("select external_id, id from item")
        .await
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    assert_eq!(
        items.len() as i64,
        plain.number("select count(*) from item").await
    );
    let jobs: BTreeMap<(String, String), (String, String)> = plain
        .rows("select lane_key, seq, state, token from job")
        .await
        .into_iter()
        .map(|row| ((row[0].clone(), row[1].clone()), (row[2].clone(), row[3].clone())))
        .collect();
    let mut given = HashSet::new();
    for fact in facts {
        match fact {
            Fact::Submitted(item, external_id) => {
                let there = items.get(external_id);
                assert_eq!(there, Some(&item.uuid().simple().to_string()), "{fact}");
            }
            Fact::Completed(job, token) => {
                let key = (job.lane().0.to_string(), job.seq().0.to_string());
                let there = jobs.get(&key);
                assert_eq!(there, Some(&("2".to_owned(), token.0.to_string())), "{fact}");
            }
            Fact::Claimed(job, token) => assert!(given.insert((*job, *token)), "given out twice: {fact}"),
            Fact::Uploaded(..) | Fact::Failed(..) | Fact::Released(..) | Fact::Wrong(_) => {}
        }
    }
    verify_log(plain).await;
}

/// The log says of each item once that it was submitted, and of each job once that it was completed.
async fn verify_log(plain: &Plain) {
    for (what, sql) in [
        (
            "jobs that did not end as completed",
            "select lane_key, seq, state from job where state <> 2",
        ),
        (
            "items without exactly one entry of their submission",
            "select i.id, count(l.id) from item i left join log l on l.item_id = i.id and l.action = 'item.submitted'
             group by i.id having count(l.id) <> 1",
        ),
        (
            "items that were not completed exactly once",
            "select i.id, count(l.id) from item i left join log l on l.item_id = i.id and l.action = 'job.completed'
             group by i.id having count(l.id) <> 1",
        ),
        (
            "entries of items that are not there",
            "select l.item_id, l.action from log l left join item i on i.id = l.item_id
             where l.item_id is not null and i.id is null",
        ),
        ("holds of jobs that have ended", "select lane_key, seq, kind from hold"),
    ] {
        let found = plain.rows(sql).await;
        assert!(found.is_empty(), "{what}: {found:?}");
    }
}

/// Files and items: every item of a file has its bytes, and there are no other bytes.
pub async fn verify_files(plain: &Plain, folder: &std::path::Path, facts: &[Fact]) {
    let rows = plain
        .rows("select blob_key, content_hash, id from item where blob_key is not null")
        .await;
    let named: BTreeSet<PathBuf> = rows.iter().map(|row| folder.join(&row[0])).collect();
    let found: BTreeSet<PathBuf> = crate::files_under(folder).into_iter().collect();
    let (without, orphans): (Vec<_>, Vec<_>) = (
        named.difference(&found).collect(),
        found.difference(&named).collect(),
    );
    assert!(without.is_empty(), "items without bytes: {without:?}");
    assert!(orphans.is_empty(), "bytes without an item: {orphans:?}");
    let mut digests = BTreeMap::new();
    for row in &rows {
        let bytes = std::fs::read(folder.join(&row[0])).expect("the file can be read");
        assert_eq!(Digest::of(&bytes).to_string(), row[1], "the bytes of {}", row[0]);
        digests.insert(row[2].clone(), row[1].clone());
    }
    for fact in facts {
        if let Fact::Uploaded(item, digest) = fact {
            let there = digests.get(&item.uuid().simple().to_string());
            assert_eq!(there, Some(digest), "{fact}");
        }
    }
}
