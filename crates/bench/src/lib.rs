//! Docket's bench.
