//! Statements: SQL as a constant with a name.
//!
//! Portable SQL is written once, in PostgreSQL's notation (`$1`, `for update`); SQLite reads the same text with its own
//! placeholders and without locks, which its exclusive write transactions make needless. Where the two must differ, both
//! texts stand side by side. Every statement is declared through [`statements!`](crate::statements), so that a
//! test can prepare them all.

use std::sync::OnceLock;

/// A statement with its name.
#[derive(Debug)]
pub struct Statement {
    /// The operation and part that it belongs to; shows up in traces, errors and the server's own logs.
    pub name: &'static str,
    pub(crate) postgres: Option<&'static str>,
    sqlite: Option<&'static str>,
    sqlite_text: OnceLock<String>,
}

impl Statement {
    /// The same text for both databases.
    pub const fn portable(name: &'static str, text: &'static str) -> Self {
        Self {
            name,
            postgres: Some(text),
            sqlite: Some(text),
            sqlite_text: OnceLock::new(),
        }
    }

    /// One text each.
    pub const fn split(name: &'static str, postgres: &'static str, sqlite: &'static str) -> Self {
        Self {
            name,
            postgres: Some(postgres),
            sqlite: Some(sqlite),
            sqlite_text: OnceLock::new(),
        }
    }

    /// A part of a tuned operation, for PostgreSQL only.
    pub const fn postgres(name: &'static str, text: &'static str) -> Self {
        Self {
            name,
            postgres: Some(text),
            sqlite: None,
            sqlite_text: OnceLock::new(),
        }
    }

    /// A part of a tuned operation, for SQLite only.
    pub const fn sqlite(name: &'static str, text: &'static str) -> Self {
        Self {
            name,
            postgres: None,
            sqlite: Some(text),
            sqlite_text: OnceLock::new(),
        }
    }

    /// The text for PostgreSQL.
    pub const fn postgres_text(&self) -> Option<&'static str> {
        self.postgres
    }

    /// Whether it may write, if only a lock: anything that is not plainly a select.
    pub(crate) fn may_write(&self) -> bool {
        let text = self.postgres.unwrap_or_default();
        let text = text.split_once("*/").map_or(text, |(_, text)| text);
        !text.trim_start().starts_with("select")
            || text.contains(" for no key update")
            || text.contains(" for update")
    }

    /// The text for SQLite.
    pub fn sqlite_text(&self) -> Option<&str> {
        let text = self.sqlite?;
        Some(self.sqlite_text.get_or_init(|| {
            let text = text.replace('$', "?");
            [
                " for no key update of r",
                " for no key update",
                " for update",
                " for share",
                " skip locked",
            ]
            .iter()
            .fold(text, |text, lock| text.replace(lock, ""))
        }))
    }
}

/// Declares a module's statements, each opening with its name as a comment, and a list of them all. Those that are `selecting` share
/// their columns, which a macro of the module names; `selecting_each` asks it for each database.
#[macro_export]
macro_rules! statements {
    (@one portable $label:literal $text:literal) => {
        $crate::statement::Statement::portable($label, concat!("/* ", $label, " */ ", $text))
    };
    (@one postgres $label:literal $text:literal) => {
        $crate::statement::Statement::postgres($label, concat!("/* ", $label, " */ ", $text))
    };
    (@one sqlite $label:literal $text:literal) => {
        $crate::statement::Statement::sqlite($label, concat!("/* ", $label, " */ ", $text))
    };
    (@one selecting $label:literal $columns:ident $text:literal) => {
        $crate::statement::Statement::portable(
            $label, concat!("/* ", $label, " */ select ", $columns!(), " ", $text))
    };
    (@one selecting_postgres $label:literal $columns:ident $text:literal) => {
        $crate::statement::Statement::postgres(
            $label, concat!("/* ", $label, " */ select ", $columns!(), " ", $text))
    };
    (@one selecting_sqlite $label:literal $columns:ident $text:literal) => {
        $crate::statement::Statement::sqlite(
            $label, concat!("/* ", $label, " */ select ", $columns!(), " ", $text))
    };
    (@one selecting_each $label:literal $columns:ident $text:literal) => {
        $crate::statement::Statement::split(
            $label,
            concat!("/* ", $label, " */ select ", $columns!(postgres), " ", $text),
            concat!("/* ", $label, " */ select ", $columns!(sqlite), " ", $text))
    };
    (@one split $label:literal $postgres:literal $sqlite:literal) => {
        $crate::statement::Statement::split(
            $label, concat!("/* ", $label, " */ ", $postgres), concat!("/* ", $label, " */ ", $sqlite))
    };
    ($($name:ident = $kind:ident $label:literal $($columns:ident)? $($text:literal)+;)+) => {
        $(static $name: $crate::statement::Statement =
            $crate::statements!(@one $kind $label $($columns)? $($text)+);)+

        /// Every statement of this module.
        pub(crate) static STATEMENTS: &[&$crate::statement::Statement] = &[$(&$name),+];
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_reads_portable_text_with_its_own_placeholders_and_without_locks() {
        let statement = Statement::portable(
            "x",
            "select a from b where c = $1 and d = $2 for no key update skip locked",
        );
        assert_eq!(
            statement.sqlite_text(),
            Some("select a from b where c = ?1 and d = ?2")
        );
    }
}
