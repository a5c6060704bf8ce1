//! The export and its proof: of everything, and of one tenant (rule L2).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::content::Digest;
use docket_core::seal::{Fault, FaultKind, Report, Verifier};
use docket_engine::AuditExport;
use docket_testkit::{Plain, World, on_both};

async fn lines(mut export: AuditExport) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(text) = export.next().await.unwrap() {
        lines.extend(text.lines().map(str::to_owned));
    }
    lines
}

async fn of_all(world: &World) -> Vec<String> {
    lines(world.engine.audit_export(&World::operator()).await.unwrap()).await
}

async fn of(world: &World, tenant: &str) -> Vec<String> {
    lines(world.engine.audit_export_of(&World::scope(tenant)).await.unwrap()).await
}

fn check(lines: &[String], head: Option<Digest>) -> Result<Report, Fault> {
    let mut verifier = Verifier::new(head);
    lines.iter().try_for_each(|line| verifier.take(line))?;
    verifier.finish()
}

async fn set_up(world: &World) {
    world.lanes(2, &["acme", "bolt"]).await;
    world.seal_all().await;
    for round in 0..4 {
        world.submit_many("acme", &format!("a{round}"), 5).await;
        world.submit_many("bolt", &format!("b{round}"), 7).await;
        world.seal_all().await;
    }
    let job = world.claim_one("w1").await;
    world.complete(job.id, job.token).await.unwrap();
    world.seal_all().await;
}

on_both! {
    async fn an_export_is_proved_whole(world: &World) {
        set_up(world).await;
        let lines = of_all(world).await;
        let report = check(&lines, None).unwrap();
        assert_eq!((report.blocks, report.unsealed), (6, 0));
        assert_eq!(i64::try_from(report.shown).unwrap(), world.number("select count(*) from log").await);
        // What comes later leaves the head where it was, in the chain.
        world.submit_one("acme", "later").await;
        world.seal_all().await;
        let later = check(&of_all(world).await, report.head).unwrap();
        assert_eq!((later.blocks, later.head_found), (7, Some(true)));
        assert_ne!(later.head, report.head);
    }

    async fn an_entry_changed_dropped_added_or_swapped_in_an_export_is_named(world: &World) {
        set_up(world).await;
        let whole = of_all(world).await;
        let at = whole.iter().position(|line| line.contains("a2-") || line.contains("\"number\":30,")).unwrap();
        let id = world.number("select id from log order by tx, id limit 1 offset 29").await;
        let mut changed = whole.clone();
        changed[at] = changed[at].replace("producer:", "producer:not-");
        let fault = check(&changed, None).unwrap_err();
        assert_eq!((fault.kind, fault.position.unwrap().id), (FaultKind::Changed, id), "{fault}");
        let mut dropped = whole.clone();
        dropped.remove(at);
        let fault = check(&dropped, None).unwrap_err();
        assert!(fault.kind == FaultKind::Missing && fault.text.contains("entry 30 is missing"), "{fault}");
        let mut added = whole.clone();
        added.insert(at, whole[at].clone());
        let fault = check(&added, None).unwrap_err();
        assert_eq!((fault.kind, fault.position.unwrap().id), (FaultKind::Added, id), "{fault}");
        let mut swapped = whole.clone();
        swapped.swap(at, at + 1);
        let fault = check(&swapped, None).unwrap_err();
        assert!(fault.kind == FaultKind::Reordered && fault.text.contains("entry 30"), "{fault}");
    }

    async fn a_tenants_export_is_proved_and_shows_nothing_of_others(world: &World) {
        set_up(world).await;
        let (all, acme) = (check(&of_all(world).await, None).unwrap(), of(world, "acme").await);
        let report = check(&acme, all.head).unwrap();
        assert_eq!((report.tenant.as_deref(), report.entries, report.head), (Some("acme"), all.entries, all.head));
        let own = world.number("select count(*) from log where tenant_id = 'acme'").await;
        assert_eq!(i64::try_from(report.shown).unwrap(), own);
        assert!(!acme.iter().any(|line| line.contains("bolt") || line.contains("tier.put")));
        let secret = Plain::of(&world.database).rows("select secret from seal").await;
        assert!(secret.iter().all(|row| !acme.iter().any(|line| line.contains(&row[0]))), "secrets stay");
        let nobody = of(world, "nobody").await;
        assert_eq!(check(&nobody, all.head).unwrap().shown, 0);
        let at = acme.iter().position(|line| line.contains("producer:acme")).unwrap();
        let mut changed = acme.clone();
        changed[at] = changed[at].replace("producer:acme", "producer:eve");
        assert_eq!(check(&changed, None).unwrap_err().kind, FaultKind::Changed);
    }

    async fn what_is_changed_in_the_database_shows_in_its_next_export(world: &World) {
        set_up(world).await;
        let id = world.number("select id from log order by tx, id limit 1 offset 29").await;
        let sql = format!("update log set new = 'x' where id = {id}");
        Plain::of(&world.database).execute_unguarded(&sql).await;
        let fault = check(&of_all(world).await, None).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Changed, "{fault}");
    }
}
