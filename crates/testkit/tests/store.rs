//! What the store does with what PostgreSQL says: which errors are tried again, and on which connection; what its sessions ask of the
//! server; that nothing is said to be committed after a statement has failed; and that a table is read to its end by any key.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use docket_core::Timestamp;
use docket_core::access::Role;
use docket_core::content::Digest;
use docket_core::id::KeyId;
use docket_store::source::{Source, SourceConfig};
use docket_store::table::key::{self, Key};
use docket_store::{Error, Store, Tx};
use docket_testkit::outage::{plain_client, server, submit, within};
use docket_testkit::{Cluster, Database, Plain, load};

/// A database with a server's tables, where this is done whenever an item is written.
async fn with_trigger(database: &Database, tables: &str, body: &str) {
    load::prepare(&server(database, |_| {}).await).await.unwrap();
    let make = format!(
        "{tables};
         create function on_item() returns trigger language plpgsql as $body$ {body} $body$;
         create trigger on_item before insert on item for each row execute function on_item()"
    );
    database.execute(&make).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_succeed_the_next_time_is_tried_again_and_done_once() {
    within(60, async {
        let database = Database::postgres().await;
        // What a sequence has given out it does not take back.
        let body = "
            declare code text := (array['40001', '40P01', '55P03', '57P05', '25P03'])[nextval('tries')];
            begin
              if code is not null then raise exception 'not now' using errcode = code; end if;
              return new;
            end";
        with_trigger(&database, "create sequence tries", body).await;
        let engine = server(&database, |_| {}).await;
        submit(&engine, "one", "doc").await.unwrap();
        let plain = Plain::of(&database);
        assert_eq!(plain.number("select last_value from tries").await, 6);
        assert_eq!(plain.number("select count(*) from item").await, 1);
        let found = engine.doctor().await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    })
    .await;
}

/// Two transactions that each wait for the other: PostgreSQL ends one of them, and it is run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_wait_for_each_other_both_are_done_in_the_end() {
    within(60, async {
        let database = Database::postgres().await;
        let body = "
            declare mine int := case new.external_id when 'a' then 1 else 2 end;
            begin
              perform n from spot where n = mine for update;
              if nextval('turns') <= 2 then
                while (select last_value from turns) < 2 loop perform pg_sleep(0.005); end loop;
                perform n from spot where n = 3 - mine for update;
              end if;
              return new;
            end";
        let tables =
            "create table spot (n int primary key); insert into spot values (1), (2); create sequence turns";
        with_trigger(&database, tables, body).await;
        let (a, b) = (server(&database, |_| {}).await, server(&database, |_| {}).await);
        let (a, b) = tokio::join!(submit(&a, "one", "a"), submit(&b, "two", "b"));
        a.unwrap();
        b.unwrap();
        let plain = Plain::of(&database);
        assert_eq!(plain.number("select count(*) from item").await, 2);
        // Nothing else ends a wait of each for the other: the third is the one that was run again.
        assert_eq!(plain.number("select last_value from turns").await, 3);
    })
    .await;
}

/// A server that only reads goes on doing so: its connection does not go back to the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_a_server_that_only_reads_is_given_up() {
    within(60, async {
        let database = Database::postgres().await;
        let body = "
            begin
              if nextval('tries') = 1 then
                perform setval('who', pg_backend_pid());
                raise exception 'I only read' using errcode = '25006';
              end if;
              return new;
            end";
        with_trigger(&database, "create sequence tries; create sequence who", body).await;
        let engine = server(&database, |_| {}).await;
        submit(&engine, "one", "doc").await.unwrap();
        let plain = Plain::of(&database);
        assert_eq!(plain.number("select count(*) from item").await, 1);
        let there = "select count(*) from pg_stat_activity where pid = (select last_value from who)";
        while plain.number(there).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The engine has the others still.
        submit(&engine, "one", "another").await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_standby_says_is_tried_again_and_what_no_server_can_do_is_not() {
    let client = plain_client(Database::postgres().await.url.as_deref().unwrap())
        .await
        .unwrap();
    for (code, statement, transient) in [
        // A transaction that is to write cannot begin there.
        ("0A000", "begin", true),
        ("25006", "begin", true),
        ("0A000", "claim", false),
        ("25006", "claim", true),
        ("57P05", "claim", true),
        ("23505", "claim", false),
    ] {
        let raise = format!("do $$ begin raise exception 'so' using errcode = '{code}'; end $$");
        let source = client.batch_execute(&raise).await.unwrap_err();
        let error = Error::Postgres { statement, source };
        assert_eq!(error.is_transient(), transient, "{code} in {statement}");
    }
}

/// The server notices that a Docket has vanished. Over a socket there is nothing to notice, and nothing is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_asks_the_server_to_look_whether_anybody_is_there() {
    within(60, async {
        let cluster = Cluster::start("").await;
        let database = cluster.database().await;
        let url = database.url.clone().unwrap();
        let body = "
            begin
              insert into seen values (current_setting('tcp_keepalives_idle') || ' ' ||
                current_setting('tcp_keepalives_interval') || ' ' || current_setting('tcp_keepalives_count'));
              return new;
            end";
        with_trigger(&database, "create table seen (words text)", body).await;
        let plain = Plain::of(&database);
        for (url, words) in [(url.clone(), "30 10 3"), (cluster.by_socket(&url), "0 0 0")] {
            let engine = server(&database, |postgres| postgres.url = url).await;
            submit(&engine, "one", words).await.unwrap();
            let seen = plain.rows("delete from seen returning words").await;
            assert_eq!(seen, [[words]]);
        }
    })
    .await;
}

/// PostgreSQL answers the commit of a transaction in which something failed by rolling it back, and not by an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_makes_light_of_a_failed_statement_is_not_committed() {
    async fn insert_twice(tx: &mut Tx) -> Result<(), Error> {
        let key = Key {
            id: KeyId::last(),
            prefix: "dk_test".to_owned(),
            role: Role::Admin,
            tenant_id: None,
            subject: "ann".to_owned(),
            created_at: Timestamp::from_ms(1),
            created_by: "ann".to_owned(),
            revoked_at: None,
        };
        key::insert(tx, &key, Digest::of(b"secret")).await?;
        let again = key::insert(tx, &key, Digest::of(b"secret")).await;
        assert!(again.unwrap_err().is_unique_violation());
        Ok(())
    }
    within(60, async {
        let database = Database::postgres().await;
        let store = Store::open(&database.store_config()).await.unwrap();
        let said = store
            .run("test", (), |tx, ()| Box::pin(insert_twice(tx)))
            .await
            .unwrap_err();
        assert!(said.to_string().contains("nothing was committed"), "{said}");
        let plain = Plain::of(&database);
        assert_eq!(plain.number("select count(*) from api_key").await, 0);
    })
    .await;
}

/// A key of a type with a length is compared as it is, and not cut to one character.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_read_to_its_end_by_keys_of_a_fixed_length() {
    within(60, async {
        let database = Database::postgres().await;
        let tables = "
            create table by_char (id char(10) primary key);
            insert into by_char select 'doc-' || n from generate_series(1, 7) n;
            create table by_bit (id bit(4) primary key);
            insert into by_bit select n::bit(4) from generate_series(1, 7) n";
        database.execute(tables).await.unwrap();
        for (table, last) in [("by_char", "doc-7"), ("by_bit", "0111")] {
            let mut source = Source::open(&SourceConfig {
                url: database.url.clone().unwrap(),
                table: table.to_owned(),
                key: "id".to_owned(),
                filter: None,
                key_is_unique: false,
            })
            .await
            .unwrap();
            let mut keys: Vec<String> = Vec::new();
            loop {
                let page = source.page(keys.last().map(String::as_str), 3).await.unwrap();
                if page.is_empty() {
                    break;
                }
                keys.extend(page.into_iter().map(|row| row.key));
                assert!(keys.len() <= 7, "{table} is read for ever: {keys:?}");
            }
            assert_eq!((keys.len(), keys[6].as_str()), (7, last), "{table}");
        }
    })
    .await;
}
