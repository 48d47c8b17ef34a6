//! Tests of the handshake, with both sides in this process.

use std::net::{Ipv4Addr, TcpListener};

use super::*;
use crate::handshake::identity::{JobId, Party, Purpose};
use crate::secure::stream::SecureStream;

type Outcome = Result<Session, HandshakeError>;

/// The acceptor of the tests.
const RANK_0: Identity = Identity { party: Party::Rank(0), job: JobId::UNKNOWN };
/// A connection to [`RANK_0`].
const TO_RANK_0: Binding = Binding { purpose: Purpose::Join, from: Party::Rank(1), to: RANK_0 };

fn side(token: Option<&Token>, version: u32) -> Handshake<'_> {
    let deadline = Instant::now() + Duration::from_secs(20);
    Handshake { token, protection: Protection::Checked, version, deadline }
}

/// Returns the ends of a new connection: of the connector and of the acceptor.
fn ends() -> [TcpStream; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let connector = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [connector, listener.accept().unwrap().0]
}

/// Returns the two ends of a connection after a handshake.
pub(crate) fn secure_pair(protection: Protection) -> (SecureStream, SecureStream) {
    let [one, other] = ends();
    let handshake = || Handshake { protection, ..side(None, 1) };
    let (session, peer_session) = std::thread::scope(|scope| {
        let connector = scope.spawn(|| handshake().connect(&one, &TO_RANK_0));
        let accepted = answer(&handshake(), &other);
        (connector.join().unwrap().unwrap(), accepted.unwrap())
    });
    for stream in [&one, &other] {
        stream.set_read_timeout(None).unwrap();
        stream.set_write_timeout(None).unwrap();
    }
    let secure = |stream, session: &Session| SecureStream::new(stream, &session.keys, "the other end".to_owned());
    (secure(one, &session).unwrap(), secure(other, &peer_session).unwrap())
}

fn answer(acceptor: &Handshake<'_>, stream: &TcpStream) -> Outcome {
    answer_as(RANK_0, acceptor, stream)
}

fn answer_as(own: Identity, acceptor: &Handshake<'_>, stream: &TcpStream) -> Outcome {
    acceptor.accept_magic(stream, acceptor.deadline)?;
    acceptor.accept(stream, |_| own)
}

/// Runs both sides. Returns the outcomes of the connector and of the acceptor.
fn meet(connector: Handshake<'_>, acceptor: Handshake<'_>) -> (Outcome, Outcome) {
    meet_as(&connector, &TO_RANK_0, &acceptor, RANK_0)
}

/// Runs both sides of a connection to the acceptor `own`. A side that is done closes its end.
fn meet_as(
    connector: &Handshake<'_>,
    binding: &Binding,
    acceptor: &Handshake<'_>,
    own: Identity,
) -> (Outcome, Outcome) {
    let [one, other] = ends();
    std::thread::scope(|scope| {
        let connector = scope.spawn(move || connector.connect(&one, binding));
        let accepted = answer_as(own, acceptor, &other);
        drop(other);
        (connector.join().unwrap(), accepted)
    })
}

#[test]
fn equal_secrets_meet() {
    let token = Token::random().unwrap();
    let (connector, acceptor) = meet(side(Some(&token), 1), side(Some(&token), 1));
    connector.unwrap();
    acceptor.unwrap();
    let (connector, acceptor) = meet(side(None, 1), side(None, 1));
    connector.unwrap();
    acceptor.unwrap();
}

#[test]
fn different_protections_become_the_stronger_one_and_are_known_to_both() {
    use Protection::{Checked, Encrypted};
    for (one, other) in [(Checked, Encrypted), (Encrypted, Checked), (Encrypted, Encrypted), (Checked, Checked)] {
        let (connector, acceptor) =
            meet(Handshake { protection: one, ..side(None, 1) }, Handshake { protection: other, ..side(None, 1) });
        let connector = connector.unwrap();
        let acceptor = acceptor.unwrap();
        assert_eq!((connector.keys.protection, connector.keys.peer_protection), (one.max(other), other));
        assert_eq!((acceptor.keys.protection, acceptor.keys.peer_protection), (one.max(other), one));
    }
}

/// Runs a handshake through someone in between, who modifies a byte. Returns the errors of the connector and of the
/// acceptor.
fn meet_modified(from_connector: bool, at: usize) -> (HandshakeError, HandshakeError) {
    let token = Token::random().unwrap();
    let secret = Some(&token);
    let [connector, mut from] = ends();
    let [mut to, acceptor] = ends();
    std::thread::scope(|scope| {
        scope.spawn(move || -> io::Result<()> {
            let mut opening = [0; OPENING_BYTES + FIRST_MESSAGE_BYTES];
            from.read_exact(&mut opening)?;
            opening[at] ^= u8::from(from_connector);
            to.write_all(&opening)?;
            let mut reply = [0; GREETING_BYTES + SECOND_MESSAGE_BYTES + REPLY_BYTES];
            to.read_exact(&mut reply)?;
            reply[at] ^= u8::from(!from_connector);
            from.write_all(&reply)?;
            let mut answer = [0; ANSWER_BYTES];
            from.read_exact(&mut answer)?;
            to.write_all(&answer)
        });
        let connector = scope.spawn(move || side(secret, 1).connect(&connector, &TO_RANK_0).err());
        let accepted = answer(&side(secret, 1), &acceptor).err();
        drop(acceptor);
        (connector.join().unwrap().unwrap(), accepted.unwrap())
    })
}

#[test]
fn messages_that_were_modified_on_the_way_are_rejected() {
    // Each byte after the version: another version has an error of its own.
    for at in GREETING_BYTES..OPENING_BYTES + FIRST_MESSAGE_BYTES {
        let (connector, acceptor) = meet_modified(true, at);
        assert!(connector.is_hang_up(), "byte {at}: {connector:?}");
        assert!(matches!(acceptor, HandshakeError::Io(_)), "byte {at}: {acceptor:?}");
    }
    for at in GREETING_BYTES..GREETING_BYTES + SECOND_MESSAGE_BYTES + REPLY_BYTES {
        let (connector, acceptor) = meet_modified(false, at);
        assert!(matches!(connector, HandshakeError::Differs), "byte {at}: {connector:?}");
        assert!(matches!(acceptor, HandshakeError::Rejected), "byte {at}: {acceptor:?}");
    }
}

/// Runs a handshake with the acceptor `own`. Returns the texts of the errors of both sides; `None` if both accept.
fn refusals(binding: &Binding, own: Identity, mode: (Option<&Token>, Protection)) -> Option<[String; 2]> {
    let handshake = Handshake { protection: mode.1, ..side(mode.0, PROTOCOL_VERSION) };
    let (connected, accepted) = meet_as(&handshake, binding, &handshake, own);
    let texts = [connected.err(), accepted.err()].map(|error| error.map(|e| e.naming("a peer".into()).to_string()));
    match texts {
        [Some(connector), Some(acceptor)] => Some([connector, acceptor]),
        [None, None] => None,
        one_side => panic!("only one side refuses {binding:?} to {own:?}: {one_side:?}"),
    }
}

#[test]
fn every_kind_of_connection_to_every_other_process_is_refused_by_name_on_both_sides() {
    let token = Token::random().unwrap();
    let job = JobId::of("a job");
    let modes = [
        (None, Protection::Unprotected),
        (Some(&token), Protection::Unprotected),
        (Some(&token), Protection::Encrypted),
    ];
    let parties: Vec<Party> = (0..3).map(Party::Rank).chain((0..2).map(Party::Server)).collect();
    for mode in modes {
        for purpose in Purpose::ALL {
            for (&from, &to) in parties.iter().flat_map(|from| parties.iter().map(move |to| (from, to))) {
                let binding = Binding { purpose, from, to: Identity { party: to, job } };
                for &found in &parties {
                    let refused = refusals(&binding, Identity { party: found, job }, mode);
                    assert_eq!(refused.is_some(), to != found, "{binding:?} reaches {found}");
                    for text in refused.iter().flatten() {
                        let names = [from, to, found].map(|party| text.contains(&party.to_string()));
                        assert_eq!(names, [true; 3], "{binding:?} reaches {found}: {text}");
                    }
                }
                let other_job = Identity { party: to, job: JobId::of("another job") };
                assert!(refusals(&binding, other_job, mode).is_some(), "{binding:?} of another job");
            }
        }
    }
}

#[test]
fn different_secrets_are_found_on_both_sides() {
    let one = Token::random().unwrap();
    let other = Token::random().unwrap();
    for (a, b) in [(Some(&one), Some(&other)), (Some(&one), None), (None, Some(&one))] {
        let (connector, acceptor) = meet(side(a, 1), side(b, 1));
        let connector = connector.err();
        let acceptor = acceptor.err();
        assert!(matches!(connector, Some(HandshakeError::Differs)), "{connector:?}");
        assert!(matches!(acceptor, Some(HandshakeError::Rejected)), "{acceptor:?}");
    }
}

#[test]
fn different_versions_are_named_on_both_sides() {
    let (connector, acceptor) = meet(side(None, 3), side(None, 4));
    let connector = connector.err().unwrap().naming("10.0.0.1:29500".into()).to_string();
    assert_eq!(connector, "peer 10.0.0.1:29500 speaks protocol 4, this node speaks 3");
    let acceptor = acceptor.err().unwrap().naming("10.0.0.2:41000".into()).to_string();
    assert_eq!(acceptor, "peer 10.0.0.2:41000 speaks protocol 3, this node speaks 4");
}

#[test]
fn a_stray_client_is_told_nothing() {
    let [mut stray, acceptor] = ends();
    stray.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let accepted = answer(&side(None, 1), &acceptor).err();
    drop(acceptor);
    assert!(matches!(accepted, Some(HandshakeError::Stray)), "{accepted:?}");
    let mut answer = Vec::new();
    // The stream ends with an orderly close or, since the acceptor left bytes unread, with a reset.
    let _ = stray.read_to_end(&mut answer);
    assert!(answer.is_empty());
}

#[test]
fn a_slow_client_runs_into_the_deadline() {
    let [mut slow, end] = ends();
    slow.write_all(&MAGIC[..3]).unwrap();
    let first_bytes = Instant::now() + Duration::from_millis(50);
    let silent = side(None, 1).accept_magic(&end, first_bytes);
    assert!(matches!(silent, Err(HandshakeError::Silent)), "{silent:?}");
}

#[test]
fn a_client_that_stops_after_the_magic_runs_into_the_deadline() {
    let [mut slow, end] = ends();
    slow.write_all(&MAGIC).unwrap();
    let acceptor = Handshake { deadline: Instant::now() + Duration::from_millis(50), ..side(None, 1) };
    match answer(&acceptor, &end) {
        Err(HandshakeError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn a_fake_listener_gets_no_proof() {
    let token = Token::random().unwrap();
    let secret = Some(&token);
    let [end, mut fake] = ends();
    std::thread::scope(|scope| {
        let connector = scope.spawn(move || side(secret, 1).connect(&end, &TO_RANK_0));
        let mut opening = [0; OPENING_BYTES + FIRST_MESSAGE_BYTES];
        fake.read_exact(&mut opening).unwrap();
        // The echoed greeting is valid, the Noise message is not.
        fake.write_all(&opening[..GREETING_BYTES]).unwrap();
        fake.write_all(&[7; SECOND_MESSAGE_BYTES + REPLY_BYTES]).unwrap();
        let mut answer = Vec::new();
        fake.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, [0; ANSWER_BYTES], "a verdict and no proof");
        assert!(matches!(connector.join().unwrap(), Err(HandshakeError::Differs)));
    });
}

#[test]
fn a_connector_without_the_secret_cannot_answer() {
    let token = Token::random().unwrap();
    let secret = Some(&token);
    let [mut thief, end] = ends();
    std::thread::scope(|scope| {
        let acceptor = scope.spawn(move || answer(&side(secret, 1), &end));
        let handshake = side(None, 1);
        let opening = Opening::new(&handshake, &TO_RANK_0);
        let mut message = [0; FIRST_MESSAGE_BYTES];
        NoiseHandshake::connector(&opening.bytes, &Token::key(None)).unwrap().write(&[], &mut message).unwrap();
        thief.write_all(&[&opening.bytes[..], &message].concat()).unwrap();
        let mut reply = [0; GREETING_BYTES + SECOND_MESSAGE_BYTES + REPLY_BYTES];
        thief.read_exact(&mut reply).unwrap();
        thief.write_all(&[ACCEPTED]).unwrap();
        thief.write_all(&reply[..CONFIRMATION_BYTES]).unwrap();
        let mut verdict = Vec::new();
        thief.read_to_end(&mut verdict).unwrap();
        assert_eq!(verdict, [!ACCEPTED]);
        assert!(matches!(acceptor.join().unwrap(), Err(HandshakeError::Differs)));
    });
}
