//! What goes out and what comes back, byte for byte.

use super::*;

/// A message as it is sent.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn sync() -> Vec<u8> {
    message(b'S', b"")
}

fn prepare(name: &str, text: &str) -> Vec<u8> {
    let parse = message(b'P', format!("{name}\0{text}\0\0\0").as_bytes());
    [parse, message(b'D', format!("S{name}\0").as_bytes()), sync()].concat()
}

/// A prepared statement as the driver runs it, without its Sync.
fn run(name: &str) -> Vec<u8> {
    let bind = message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes());
    [bind, message(b'E', b"\0\0\0\0\0")].concat()
}

fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

fn complete(tag: &str) -> Vec<u8> {
    [message(b'2', b""), message(b'C', format!("{tag}\0").as_bytes())].concat()
}

fn error(severity: &str, code: &str) -> Vec<u8> {
    message(
        b'E',
        format!("S{severity}\0V{severity}\0C{code}\0Mso it is\0\0").as_bytes(),
    )
}

fn refused() -> Vec<u8> {
    message(
        b'E',
        b"SERROR\0VERROR\0C25P02\0Mcurrent transaction is aborted, commands ignored until end of transaction block\0\0",
    )
}

/// What the server gets of some writes, each flushed, and how their answers end.
struct Sent {
    going: Going,
    ends: VecDeque<End>,
}

impl Sent {
    fn new() -> Self {
        let (going, ends) = (Going::default(), VecDeque::new());
        let mut sent = Self { going, ends };
        for (name, text) in [
            ("s0", "begin isolation level read committed read write"),
            ("s1", "select 1"),
            ("s2", "commit"),
        ] {
            assert_eq!(sent.flight(&prepare(name, text), usize::MAX), prepare(name, text));
        }
        sent.ends.clear();
        sent
    }

    /// What is sent of this, written in pieces and then flushed.
    fn flight(&mut self, bytes: &[u8], piece: usize) -> Vec<u8> {
        for piece in bytes.chunks(piece.min(bytes.len())) {
            self.going.take(piece, &mut self.ends).unwrap();
        }
        self.going.settle(&mut self.ends);
        self.going.out.split().to_vec()
    }
}

/// What the driver reads of this.
fn read(bytes: &[u8], piece: usize, mut ends: VecDeque<End>) -> Vec<u8> {
    let mut coming = Coming::default();
    for piece in bytes.chunks(piece.min(bytes.len())) {
        coming.take(piece, &mut ends).unwrap();
    }
    coming.fit.to_vec()
}

const PIECES: [usize; 4] = [1, 3, 7, usize::MAX];

#[test]
fn statements_of_one_flight_share_a_sync_and_are_answered_as_if_each_had_its_own() {
    for piece in PIECES {
        let mut sent = Sent::new();
        let driver = [run("s0"), sync(), run("s1"), sync(), run("s2"), sync()].concat();
        let server = [run("s0"), run("s1"), run("s2"), sync()].concat();
        assert_eq!(sent.flight(&driver, piece), server);

        let server = [
            complete("BEGIN"),
            complete("SELECT 1"),
            complete("COMMIT"),
            ready(b'I'),
        ];
        let driver = [
            complete("BEGIN"),
            ready(b'T'),
            complete("SELECT 1"),
            ready(b'T'),
            complete("COMMIT"),
            ready(b'I'),
        ];
        assert_eq!(read(&server.concat(), piece, sent.ends), driver.concat());
    }
}

#[test]
fn a_flight_in_an_open_transaction_goes_on_where_the_last_one_ended() {
    let mut sent = Sent::new();
    let first = [run("s0"), sync()].concat();
    assert_eq!(sent.flight(&first, usize::MAX), first);
    assert_eq!(sent.ends, [End::Said]);
    let second = [run("s1"), sync(), run("s1"), sync()].concat();
    assert_eq!(
        sent.flight(&second, usize::MAX),
        [run("s1"), run("s1"), sync()].concat()
    );
    assert_eq!(sent.ends, [End::Said, End::LeftOut, End::Said]);
}

#[test]
fn nothing_is_left_out_where_a_sync_is_a_commit_or_its_answer_is_another() {
    let query = message(b'Q', b"rollback\0");
    let close = [message(b'C', b"Ss1\0"), sync()].concat();
    for flight in [
        // Outside a transaction.
        [run("s1"), sync(), run("s1"), sync()].concat(),
        // After one.
        [run("s2"), sync(), run("s1"), sync(), run("s0"), sync()].concat(),
        // Before what is no prepared statement.
        [
            run("s0"),
            sync(),
            query.clone(),
            run("s1"),
            sync(),
            run("s1"),
            sync(),
        ]
        .concat(),
        [run("s0"), sync(), prepare("s3", "select 3")].concat(),
        [run("s0"), sync(), close].concat(),
        // A statement that was closed, and its name given to another.
        [prepare("s0", "select 0"), run("s0"), sync(), run("s1"), sync()].concat(),
    ] {
        for piece in PIECES {
            let mut sent = Sent::new();
            assert_eq!(sent.flight(&flight, piece), flight);
            assert!(sent.ends.iter().all(|end| *end == End::Said));
        }
    }
}

#[test]
fn two_executions_before_a_sync_keep_it() {
    let mut sent = Sent::new();
    let twice = [run("s1"), run("s1"), sync()].concat();
    let flight = [run("s0"), sync(), twice.clone(), run("s1"), sync()].concat();
    let server = [run("s0"), twice, run("s1"), sync()].concat();
    assert_eq!(sent.flight(&flight, usize::MAX), server);
    assert_eq!(sent.ends, [End::LeftOut, End::Said, End::Said]);
}

#[test]
fn what_the_server_passes_over_after_an_error_is_refused_in_its_words() {
    let ends = VecDeque::from([End::LeftOut, End::LeftOut, End::LeftOut, End::Said, End::Said]);
    let after = [complete("ROLLBACK"), ready(b'I')].concat();
    let server = [
        complete("BEGIN"),
        error("ERROR", "40001"),
        ready(b'E'),
        after.clone(),
    ];
    let driver = [
        complete("BEGIN"),
        ready(b'T'),
        error("ERROR", "40001"),
        ready(b'E'),
        refused(),
        ready(b'E'),
        refused(),
        ready(b'E'),
        after,
    ];
    for piece in PIECES {
        assert_eq!(read(&server.concat(), piece, ends.clone()), driver.concat());
    }
}

#[test]
fn an_error_of_the_last_statement_is_the_servers_own() {
    let server = [complete("BEGIN"), error("ERROR", "23505"), ready(b'E')].concat();
    let driver = [
        complete("BEGIN"),
        ready(b'T'),
        error("ERROR", "23505"),
        ready(b'E'),
    ]
    .concat();
    let ends = VecDeque::from([End::LeftOut, End::Said]);
    assert_eq!(read(&server, usize::MAX, ends), driver);
}

#[test]
fn after_a_fatal_error_nothing_is_made_up() {
    let server = error("FATAL", "57P01");
    let ends = VecDeque::from([End::LeftOut, End::LeftOut, End::Said]);
    assert_eq!(read(&server, usize::MAX, ends), server);
}

#[test]
fn bytes_that_are_no_message_are_an_error() {
    let mut coming = Coming::default();
    assert!(coming.take(&[b'Z', 0, 0, 0, 3, 0], &mut VecDeque::new()).is_err());
}
