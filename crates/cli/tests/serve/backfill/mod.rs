//! Moving in: `docket backfill` as a real process, against a real server, from real files and a real PostgreSQL (rule A5).

mod killed;
mod lines;
mod site;
mod table;
