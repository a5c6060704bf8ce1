//! The tables, one a module: portable SQL beside the reading of its rows. Functions are named for what they do to their table;
//! rules live elsewhere.

pub mod collection;
pub mod correction;
pub mod counter;
pub mod decided;
pub mod delivery;
pub mod delivery_attempt;
pub mod delivery_find;
pub mod delivery_take;
pub mod depth;
pub mod doctor;
pub mod hold;
pub mod idempotency;
pub mod item;
pub mod job;
pub mod key;
pub mod lane;
pub mod listing;
pub mod log;
pub mod notification;
pub mod pause;
pub mod pipeline;
pub mod record;
pub mod retention;
pub mod review;
pub mod review_content;
pub mod review_list;
pub mod review_order;
pub mod review_pick;
pub mod review_unassigned;
pub mod reviewer;
pub mod seal;
pub mod step;
pub mod stopped_recipient;
pub mod tenant;
pub mod together;
pub mod upload;
pub mod worker;

use crate::statement::Statement;

pub(crate) static STATEMENTS: &[&[&Statement]] = &[
    collection::STATEMENTS,
    correction::STATEMENTS,
    counter::STATEMENTS,
    decided::STATEMENTS,
    delivery::STATEMENTS,
    delivery_attempt::STATEMENTS,
    delivery_find::STATEMENTS,
    delivery_take::STATEMENTS,
    depth::STATEMENTS,
    doctor::STATEMENTS,
    hold::STATEMENTS,
    idempotency::STATEMENTS,
    item::STATEMENTS,
    job::STATEMENTS,
    key::STATEMENTS,
    lane::STATEMENTS,
    listing::STATEMENTS,
    log::STATEMENTS,
    notification::STATEMENTS,
    pause::STATEMENTS,
    pipeline::STATEMENTS,
    record::STATEMENTS,
    retention::STATEMENTS,
    review::STATEMENTS,
    review_content::STATEMENTS,
    review_list::STATEMENTS,
    review_order::STATEMENTS,
    review_pick::STATEMENTS,
    review_unassigned::STATEMENTS,
    reviewer::STATEMENTS,
    seal::STATEMENTS,
    step::STATEMENTS,
    stopped_recipient::STATEMENTS,
    tenant::STATEMENTS,
    upload::STATEMENTS,
    worker::STATEMENTS,
];
