//! Docket's cli.
