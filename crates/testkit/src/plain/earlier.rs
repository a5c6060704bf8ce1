//! A database as an earlier version of Docket has left it: the schema of that version, and of the rows of today what it could hold.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::Plain;

const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/migrations");

/// The schema as it was is put in the place of the present one, whose rows are then copied, as far as there are tables and columns
/// for them. Numbers go on where they were.
const COPY_ON_POSTGRES: &str = "
set session_replication_role = replica;
do $$
declare t record;
begin
  for t in select table_name as name, string_agg(quote_ident(column_name), ', ') as columns from information_schema.columns
           where table_schema = 'public' and is_generated = 'NEVER' and table_name <> 'migration' group by table_name
  loop
    execute format('insert into public.%1$I (%2$s) overriding system value select %2$s from newest.%1$I', t.name, t.columns);
  end loop;
  for t in select sequencename as name from pg_sequences where schemaname = 'public' loop
    execute format('select setval(%L, s.last_value, s.is_called) from newest.%I s', 'public.' || t.name, t.name);
  end loop;
end $$;
drop schema newest cascade;";

impl Plain {
    /// How many migrations there are.
    pub fn migrations(&self) -> usize {
        self.files().len()
    }

    /// Takes the database back to what the first `number` migrations make. Every Docket on it has to be closed.
    pub async fn back_to(&self, number: usize) {
        let mut schema = "create table migration (number bigint primary key);\n".to_owned();
        for (index, file) in self.files().iter().take(number).enumerate() {
            schema += &std::fs::read_to_string(file).expect("a migration can be read");
            schema += &format!("\ninsert into migration (number) values ({});\n", index + 1);
        }
        match self {
            Self::Sqlite(file) => {
                let lock = unlocked(&file.with_file_name("docket.lock")).await;
                sqlite_back_to(file, &schema).expect("SQLite answers");
                drop(lock);
            }
            Self::Postgres(_) => {
                let aside = "alter schema public rename to newest; create schema public;";
                self.execute(&format!("{aside}\n{schema}\n{COPY_ON_POSTGRES}"))
                    .await;
            }
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let folder = match self {
            Self::Sqlite(_) => Path::new(MIGRATIONS).join("sqlite"),
            Self::Postgres(_) => Path::new(MIGRATIONS).join("postgres"),
        };
        let files = std::fs::read_dir(folder).expect("the migrations are there");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.sort();
        files
    }
}

/// Takes the lock of a data folder: a Docket that was closed gives it up when the last of its threads has ended.
async fn unlocked(path: &Path) -> File {
    let lock = File::open(path).expect("the lock is there");
    for _ in 0..500 {
        if lock.try_lock().is_ok() {
            return lock;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("somebody still has the database open");
}

fn sqlite_back_to(file: &Path, schema: &str) -> rusqlite::Result<()> {
    let newest = file.with_file_name("newest.db").display().to_string();
    Connection::open(file)?.execute("vacuum into ?1", [&newest])?;
    for ending in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{ending}", file.display())).ok();
    }
    let connection = Connection::open(file)?;
    connection.execute_batch("pragma foreign_keys = off")?;
    connection.execute_batch(schema)?;
    connection.execute("attach ?1 as newest", [&newest])?;
    connection.execute_batch("delete from lane_turn")?;
    let tables = "select t.name, (select group_concat('\"' || c.name || '\"', ', ') from pragma_table_xinfo(t.name, 'main') c where c.hidden = 0)
                  from main.sqlite_schema t where t.type = 'table' and t.name <> 'migration'";
    let tables: Vec<(String, String)> = connection
        .prepare(tables)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (table, columns) in tables {
        let copy = format!("insert into main.{table} ({columns}) select {columns} from newest.{table}");
        connection.execute_batch(&copy)?;
    }
    connection.execute_batch("detach newest")
}
