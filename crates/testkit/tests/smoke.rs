//! The shortest way through: submit, claim, complete.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::item::ItemStatus;
use docket_testkit::{World, on_both};

on_both! {
    async fn an_item_goes_all_the_way(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc-1").await;
        let job = world.claim_one("w1").await;
        assert_eq!((job.item, job.attempt), (item.id, 1));
        world.complete(job.id, job.token).await.unwrap();
        let view = world.engine.item(&World::scope("acme"), item.id).await.unwrap();
        assert_eq!(view.item.status, ItemStatus::Completed);
        assert_eq!(world.story("acme", item.id).await, ["item.submitted", "job.claimed", "job.completed"]);
    }
}
