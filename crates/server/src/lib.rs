//! Docket.
