//! Tables of cases for the course of a delivery.

use super::*;
use crate::random::SeededRandom;

const UNCLEAR: Answer = Answer::Unclear { retry_after_ms: None };
const NOW: Timestamp = Timestamp::from_ms(1_000_000);

const fn ability(lookup_lag_ms: Option<i64>, dedupe_ms: Option<i64>, on_unknown: OnUnknown) -> Ability {
    Ability {
        lookup_lag_ms,
        dedupe_ms,
        on_unknown,
    }
}

const TELLS: Ability = ability(Some(500), None, OnUnknown::Hold);
const DEDUPES: Ability = ability(None, Some(60_000), OnUnknown::Hold);
const NEITHER: Ability = ability(None, None, OnUnknown::Hold);
const NEITHER_RESENDS: Ability = ability(None, None, OnUnknown::Resend);
const ALL: [Ability; 4] = [TELLS, DEDUPES, NEITHER, NEITHER_RESENDS];

fn policy() -> RetryPolicy {
    RetryPolicy {
        backoff: Backoff {
            base_ms: 1_000,
            max_ms: 8_000,
        },
        failures_max: 3,
    }
}

fn sending() -> Course {
    let mut course = Course::new(NOW);
    course.take(Step::Send, NOW, 30_000);
    course
}

fn in_doubt() -> Course {
    let mut course = sending();
    assert!(course.run_out());
    course
}

fn answered(mut course: Course, answer: Answer) -> Course {
    course.answered(answer, &TELLS, &policy(), &SeededRandom::new(1), NOW);
    course
}

fn looked_up(mut course: Course, found: Found) -> Course {
    course.looked_up(found, &policy(), &SeededRandom::new(1), NOW);
    course
}

fn told() -> Course {
    answered(
        sending(),
        Answer::Accepted {
            receipt: "m-1".to_owned(),
        },
    )
}

#[test]
fn what_is_told_is_skipped_and_what_left_no_trace_is_sent() {
    for ability in ALL {
        assert_eq!(told().step(&ability, NOW), Step::Skip);
        assert_eq!(Course::new(NOW).step(&ability, NOW), Step::Send);
    }
}

#[test]
fn a_send_that_may_have_happened_is_asked_about_and_never_blindly_resent() {
    let later = NOW.plus_ms(500);
    let much_later = NOW.plus_ms(60_000);
    for (ability, at, step) in [
        (TELLS, much_later, Step::LookUp),
        (DEDUPES, later, Step::Send),
        (DEDUPES, much_later, Step::Hold),
        (NEITHER, later, Step::Hold),
        (NEITHER_RESENDS, later, Step::SendAnyway),
    ] {
        // However the doubt came about: a lease that ran out, an answer that was none, an id without a moment.
        let with_id_only = Course {
            state: State::Pending,
            doubtful: false,
            receipt: Some("m-1".to_owned()),
            ..sending()
        };
        for course in [in_doubt(), answered(sending(), UNCLEAR), sending(), with_id_only] {
            assert_eq!(course.step(&ability, at), step, "{course:?}");
            // What may have arrived at the last moment of a send shows when the provider's lag is over, and no sooner.
            let known_from = course.landed_by.unwrap().plus_ms(500);
            assert_eq!(
                course.step(&TELLS, known_from.plus_ms(-1)),
                Step::Wait(known_from)
            );
            assert_eq!(course.step(&TELLS, known_from), Step::LookUp);
        }
    }
}

#[test]
fn a_send_can_have_arrived_until_it_was_answered_or_its_hold_was_over() {
    assert_eq!(in_doubt().landed_by, Some(NOW.plus_ms(30_000)));
    let mut unclear = sending();
    let (ability, random) = (&TELLS, &SeededRandom::new(1));
    unclear.answered(UNCLEAR, ability, &policy(), random, NOW.plus_ms(14_000));
    assert_eq!(unclear.landed_by, Some(NOW.plus_ms(14_000)));
}

#[test]
fn a_refusal_in_doubt_is_asked_about_or_left_to_a_person_and_never_tried_at_once() {
    for (ability, state) in [
        (TELLS, State::Unknown),
        (DEDUPES, State::Held),
        (NEITHER, State::Held),
        (NEITHER_RESENDS, State::Held),
    ] {
        let mut again = in_doubt();
        again.take(Step::Send, NOW, 30_000);
        again.answered(Answer::Refused, &ability, &policy(), &SeededRandom::new(1), NOW);
        assert_eq!(again.state, state, "{ability:?}");
    }
}

#[test]
fn a_wish_to_know_sends_nothing_that_may_arrive_twice() {
    let mut asked = told();
    asked.reconcile(NOW).unwrap();
    assert_eq!(asked.step(&NEITHER_RESENDS, NOW), Step::Hold);
    assert_eq!(asked.step(&NEITHER, NOW), Step::Hold);
    assert_eq!(
        asked.step(&DEDUPES, NOW),
        Step::Send,
        "the same token has one effect"
    );
}

#[test]
fn an_intent_is_a_hold_with_a_new_token_and_an_end() {
    let course = sending();
    assert_eq!((course.state, course.lease), (State::Sending, LeaseToken(1)));
    assert_eq!(course.due, Some(NOW.plus_ms(30_000)));
    assert_eq!((course.attempts, course.intent_at), (1, Some(NOW)));
}

#[test]
fn a_mark_carries_the_id_the_moment_and_the_evidence_together() {
    let course = answered(
        sending(),
        Answer::Accepted {
            receipt: "m-1".to_owned(),
        },
    );
    assert_eq!(course.state, State::Sent);
    assert_eq!(course.receipt.as_deref(), Some("m-1"));
    assert_eq!(
        (course.notified_at, course.evidence_at, course.due),
        (Some(NOW), Some(NOW), None)
    );
}

#[test]
fn answers_lead_to_their_states() {
    let not_now = Answer::NotNow { retry_after_ms: None };
    for (course, answer, state) in [
        (sending(), Answer::Refused, State::Failed),
        (sending(), not_now.clone(), State::Pending),
        (sending(), UNCLEAR, State::Unknown),
    ] {
        assert_eq!(answered(course, answer).state, state);
    }
    // A resend by policy of what is in doubt keeps the doubt, and nothing in doubt is failed (rule N8).
    let mut again = in_doubt();
    again.take(Step::Send, NOW, 30_000);
    assert!(again.doubtful);
    assert_eq!(answered(again.clone(), Answer::Refused).state, State::Unknown);
    assert_eq!(answered(again.clone(), not_now).state, State::Unknown);
    let told = answered(
        again,
        Answer::Accepted {
            receipt: "m-1".to_owned(),
        },
    );
    assert!(told.state == State::Sent && !told.doubtful);
}

#[test]
fn waits_grow_and_retry_after_is_heeded() {
    let wait = |failures: u32, retry_after_ms: Option<i64>| {
        let course = Course {
            failures,
            ..sending()
        };
        let course = answered(course, Answer::NotNow { retry_after_ms });
        course.due.map(|due| due.since(NOW))
    };
    assert!((500..=1_000).contains(&wait(0, None).unwrap()));
    assert!((1_000..=2_000).contains(&wait(1, None).unwrap()));
    assert_eq!(wait(0, Some(120_000)), Some(120_000));
    assert!(wait(0, Some(i64::MAX)).unwrap() <= crate::backoff::BACKOFF_MAX_MS);
    assert!(wait(0, Some(-5)).unwrap() >= 500);
}

#[test]
fn tries_end_and_what_is_surely_not_sent_is_failed() {
    let mut course = Course::new(NOW);
    for _ in 0..3 {
        course.take(Step::Send, NOW, 30_000);
        course = answered(course, Answer::NotNow { retry_after_ms: None });
    }
    assert_eq!((course.state, course.due), (State::Failed, None));
}

#[test]
fn a_look_up_confirms_or_clears() {
    let mut course = in_doubt();
    course.take(Step::LookUp, NOW, 30_000);
    assert_eq!((course.state, course.lease), (State::Unknown, LeaseToken(2)));
    let known = looked_up(
        course.clone(),
        Found::Known {
            receipt: "m-1".to_owned(),
        },
    );
    assert_eq!((known.state, known.doubtful), (State::Sent, false));
    let cleared = looked_up(course.clone(), Found::Nothing);
    assert_eq!((cleared.state, cleared.due), (State::Pending, Some(NOW)));
    assert_eq!(cleared.step(&TELLS, NOW), Step::Send);
    let silent = looked_up(course, Found::NoAnswer { retry_after_ms: None });
    assert_eq!(silent.state, State::Unknown);
    assert!(silent.due > Some(NOW) && silent.doubtful);
}

#[test]
fn a_provider_that_never_answers_leaves_it_to_a_person() {
    let mut course = in_doubt();
    for _ in 0..100 {
        course.take(Step::LookUp, NOW, 30_000);
        course = looked_up(course, Found::NoAnswer { retry_after_ms: None });
        if course.state == State::Held {
            return;
        }
        assert_eq!(course.state, State::Unknown);
    }
    panic!("it asks for ever");
}

#[test]
fn what_is_resent_by_policy_is_not_resent_for_ever() {
    let mut course = Course::new(NOW);
    for sends in 0..100 {
        match course.step(&NEITHER_RESENDS, NOW) {
            step @ (Step::Send | Step::SendAnyway) => course.take(step, NOW, 30_000),
            step => {
                assert_eq!(
                    (step, course.state),
                    (Step::Skip, State::Held),
                    "after {sends} sends"
                );
                return;
            }
        }
        course = answered(course, UNCLEAR);
    }
    panic!("it is sent for ever");
}

#[test]
fn a_row_marked_sent_is_confirmed_or_cleared_and_requeued() {
    let mut course = told();
    course.reconcile(NOW.plus_ms(9)).unwrap();
    assert_eq!(course.state, State::Reconciling);
    assert_eq!(course.step(&TELLS, NOW.plus_ms(500)), Step::LookUp);
    course.take(Step::LookUp, NOW.plus_ms(500), 30_000);
    assert_eq!(course.state, State::Reconciling);
    let confirmed = looked_up(
        course.clone(),
        Found::Known {
            receipt: "m-1".to_owned(),
        },
    );
    assert_eq!((confirmed.state, confirmed.notified_at), (State::Sent, Some(NOW)));
    let cleared = looked_up(course, Found::Nothing);
    assert_eq!(
        (cleared.state, cleared.notified_at, cleared.evidence_at),
        (State::Pending, None, None)
    );
}

#[test]
fn people_may_do_what_the_state_allows() {
    for state in State::ALL {
        let course = || Course { state, ..sending() };
        let reconciles = matches!(
            state,
            State::Sent | State::Unknown | State::Held | State::Reconciling
        );
        let resends = matches!(
            state,
            State::Sent | State::Unknown | State::Held | State::Failed | State::Cancelled
        );
        let cancels = matches!(
            state,
            State::Pending | State::Unknown | State::Held | State::Failed | State::Cancelled
        );
        assert_eq!(course().reconcile(NOW).is_ok(), reconciles, "reconcile {state}");
        assert_eq!(course().resend(NOW).is_ok(), resends, "resend {state}");
        assert_eq!(course().cancel(NOW).is_ok(), cancels, "cancel {state}");
    }
}

#[test]
fn what_a_person_does_fences_off_whoever_holds_it() {
    let mut resent = in_doubt();
    let before = resent.lease;
    resent.resend(NOW).unwrap();
    assert!(resent.lease > before && resent.step(&TELLS, NOW) == Step::Send);
    let mut cancelled = in_doubt();
    cancelled.cancel(NOW).unwrap();
    assert!(cancelled.lease > before && cancelled.step(&TELLS, NOW) == Step::Skip);
}

#[test]
fn what_was_told_stays_told_whatever_becomes_of_a_resend() {
    let accepted = || Answer::Accepted {
        receipt: "m-2".to_owned(),
    };
    let mut resent = told();
    resent.resend(NOW.plus_ms(5)).unwrap();
    assert_eq!(resent.step(&TELLS, NOW), Step::Send, "it is sent all the same");
    let mut sent = resent.clone();
    sent.take(Step::Send, NOW.plus_ms(5), 30_000);
    let mut cancelled = resent.clone();
    cancelled.cancel(NOW).unwrap();
    let mut twice = answered(sent.clone(), accepted());
    twice.resend(NOW.plus_ms(9)).unwrap();
    for course in [
        resent,
        sent.clone(),
        answered(sent.clone(), Answer::Refused),
        answered(sent.clone(), UNCLEAR),
        looked_up(sent.clone(), Found::Nothing),
        answered(sent, accepted()),
        cancelled,
        twice,
    ] {
        assert!(course.is_told(), "{}", course.state);
        assert_eq!(course.told_at(), Some(NOW), "{}", course.state);
    }
}

#[test]
fn nobody_was_told_by_a_mark_that_no_provider_made_or_that_is_in_doubt() {
    let mut unproven = Course {
        evidence_at: None,
        ..told()
    };
    unproven.resend(NOW).unwrap();
    let mut asked = told();
    asked.reconcile(NOW).unwrap();
    for course in [unproven, asked, in_doubt(), sending(), Course::new(NOW)] {
        assert!(!course.is_told(), "{}", course.state);
    }
}

#[test]
fn what_has_come_to_its_end_says_when_and_nothing_else_does() {
    let resent = |mut course: Course| {
        course.resend(NOW).unwrap();
        course
    };
    let asked = |mut course: Course| {
        course.reconcile(NOW).unwrap();
        course
    };
    let cancelled = |mut course: Course| {
        course.cancel(NOW).unwrap();
        course
    };
    let mut unwanted = Course::new(NOW);
    unwanted.unwanted("410", NOW);
    let tired = Course {
        failures: 3,
        ..in_doubt()
    };
    let mut lost = asked(told());
    lost.take(Step::Hold, NOW, 30_000);
    for course in [
        Course::new(NOW),
        sending(),
        in_doubt(),
        told(),
        answered(sending(), Answer::Refused),
        answered(sending(), Answer::NotNow { retry_after_ms: None }),
        answered(sending(), UNCLEAR),
        looked_up(tired, Found::Nothing),
        resent(told()),
        asked(told()),
        lost,
        cancelled(in_doubt()),
        resent(cancelled(in_doubt())),
        unwanted,
    ] {
        let ended = course.state.is_final().then_some(NOW);
        let forgettable = ended.filter(|_| course.state != State::Failed);
        assert_eq!(
            (course.ended_at, course.end()),
            (ended, forgettable),
            "{}",
            course.state
        );
    }
    let unproven = Course {
        evidence_at: None,
        ..told()
    };
    assert_eq!(unproven.end(), None, "it is yet to be looked into");
}
