//! Versions of one subject rise (rule N3).

use super::NotificationStatus;

/// How a version that is asked for stands to the highest one there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionStands {
    /// It is higher: new deliveries are made.
    Higher,
    /// It is the same and all were told: nothing is done, and the earlier result is given.
    Succeeded,
    /// It is lower, or the same and not all were told: refused.
    NotHigher,
}

/// How `wanted` stands to the highest version of the subject and its notification's status, if there is one.
pub fn version_stands(wanted: i64, highest: Option<(i64, NotificationStatus)>) -> VersionStands {
    match highest {
        None => VersionStands::Higher,
        Some((version, _)) if wanted > version => VersionStands::Higher,
        Some((version, NotificationStatus::Succeeded)) if wanted == version => VersionStands::Succeeded,
        Some(_) => VersionStands::NotHigher,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_higher_version_makes_deliveries_and_a_repeat_of_a_success_does_nothing() {
        use NotificationStatus::{Failed, InProgress, Succeeded};
        for (wanted, highest, stands) in [
            (1, None, VersionStands::Higher),
            (2, Some((1, InProgress)), VersionStands::Higher),
            (2, Some((1, Succeeded)), VersionStands::Higher),
            (1, Some((1, Succeeded)), VersionStands::Succeeded),
            (1, Some((1, InProgress)), VersionStands::NotHigher),
            (1, Some((1, Failed)), VersionStands::NotHigher),
            (1, Some((2, Succeeded)), VersionStands::NotHigher),
        ] {
            assert_eq!(version_stands(wanted, highest), stands, "{wanted} {highest:?}");
        }
    }
}
