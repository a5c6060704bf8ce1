//! Reviews: what reviewers are given, what they answer, and what leads see of it all.

mod entry;
mod overview;
mod words;

pub use entry::{Entry, Explanation, ItemReview, Parts, Sla};
pub use overview::{Counts, QueueQuery, ReviewsQuery, Stats, Workload, WorkloadOf};
pub use words::{
    ClaimFor, Commit, CommitFor, Decided, Decision, Empty, EmptyReason, Entered, Entries, FieldCorrection,
    Kept, Pop, PopFor, Popped, PutBack, ReapReviews, ReapedReviews, Reassign, Release, ReleaseFor, Reviews,
    ReviewsFor, TakenBack,
};
