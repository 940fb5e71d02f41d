use super::*;

/// Returns the rows of a chain, built only by the published rule.
fn rows(chain: &str, from: i64, previous: &str, count: i64) -> Vec<String> {
    let mut previous = previous.to_owned();
    (from..from + count)
        .map(|sequence| {
            let tenant = if chain == "platform" { String::new() } else { format!(r#""tenant_id":"{chain}","#) };
            // Spaces and order are part of the hashed text.
            let record = format!(r#"{{"id":"aud_{sequence}", {tenant}"action":"tenant.create","n":1.0}}"#);
            let hash = hash(&previous, sequence, &record);
            let line = format!(
                r#"{{"chain":"{chain}","sequence":{sequence},"previous_hash":"{previous}","hash":"{hash}","record":{record}}}"#
            );
            previous = hash;
            line
        })
        .collect()
}

fn hash(previous: &str, sequence: i64, record: &str) -> String {
    let digest = Sha256::digest(format!("{previous}\n{sequence}\n{record}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn chain() -> Vec<String> {
    rows("ten_1", 1, GENESIS, 6)
}

fn check(rows: &[String], head: Option<&str>) -> Result<Verified, Finding> {
    checked(rows, head, &SignedHeads::default())
}

fn checked(rows: &[String], head: Option<&str>, heads: &SignedHeads) -> Result<Verified, Finding> {
    verify(format!("{}\n", rows.join("\n")).as_bytes(), head, heads).map_err(|unverified| match unverified {
        Unverified::Found(finding) => finding,
        Unverified::Unreadable(error) => panic!("{error}"),
    })
}

fn finding(rows: &[String]) -> (Tampering, u64, Option<i64>) {
    let finding = check(rows, None).unwrap_err();
    (finding.how, finding.line, finding.sequence)
}

fn head_of(rows: &[String]) -> String {
    serde_json::from_str::<serde_json::Value>(rows.last().unwrap()).unwrap()["hash"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_chain_as_it_was_written_is_verified() {
    let verified = check(&chain(), None).unwrap();
    assert_eq!((verified.rows, verified.first, verified.last, verified.built_on), (6, 1, 6, None));
    assert_eq!(verified.last_hash, head_of(&chain()));
    assert_eq!(check(&rows("platform", 1, GENESIS, 2), None).unwrap().chain, "platform");
}

#[test]
fn an_altered_row_is_named() {
    for (from, to) in [
        ("tenant.create", "tenant.delete"),
        (r#", "tenant_id"#, r#","tenant_id"#),
        (r#""n":1.0"#, r#""n":1"#),
        (r#""sequence":3"#, r#""sequence":3,"note":"mine""#),
        (r#""hash":""#, r#""hash":"0"#),
    ] {
        let mut rows = chain();
        rows[2] = rows[2].replacen(from, to, 1);
        assert_ne!(rows, chain(), "{from}");
        let (how, line, _) = finding(&rows);
        assert_eq!((how, line), (Tampering::Altered, 3), "{from}");
    }
}

#[test]
fn a_row_that_was_altered_and_hashed_anew_breaks_at_the_next_one() {
    let mut all = chain();
    let before = head_of(&all[..2]);
    all[2] = rows("ten_1", 3, &before, 1)[0].replace("tenant.create", "tenant.delete");
    let record = all[2].split_once(r#""record":"#).unwrap().1.strip_suffix('}').unwrap().to_owned();
    let old = head_of(&all[2..3]);
    all[2] = all[2].replace(&old, &hash(&before, 3, &record));
    assert_eq!(finding(&all), (Tampering::Altered, 4, Some(4)));
}

#[test]
fn removed_rows_are_named_by_their_numbers() {
    let mut rows = chain();
    rows.drain(2..4);
    let finding = check(&rows, None).unwrap_err();
    assert_eq!((finding.how, finding.line, finding.sequence), (Tampering::Removed, 3, Some(5)));
    assert!(finding.why.contains("rows 3 to 4 before it are missing"), "{}", finding.why);
}

#[test]
fn reordered_and_repeated_rows_are_named() {
    let mut swapped = chain();
    swapped.swap(2, 3);
    let finding_of_swap = check(&swapped, None).unwrap_err();
    assert_eq!(
        (finding_of_swap.how, finding_of_swap.line, finding_of_swap.sequence),
        (Tampering::Reordered, 3, Some(4))
    );
    assert!(finding_of_swap.why.contains("row 3"), "{}", finding_of_swap.why);
    let mut first = chain();
    first.swap(0, 1);
    assert_eq!(finding(&first), (Tampering::Reordered, 2, Some(1)));
    let mut twice = chain();
    twice.insert(3, twice[2].clone());
    assert_eq!(finding(&twice), (Tampering::Reordered, 4, Some(3)));
}

#[test]
fn a_cut_off_end_is_found_by_a_head_that_was_kept() {
    let (whole, head) = (chain(), head_of(&chain()));
    assert_eq!(check(&whole, Some(&head)).unwrap().kept_head_at, Some(6));
    assert!(check(&whole[..4], None).is_ok(), "a chain alone cannot show that its end is missing");
    let finding = check(&whole[..4], Some(&head)).unwrap_err();
    assert_eq!((finding.how, finding.line, finding.sequence), (Tampering::CutOff, 4, Some(4)));
    let earlier = head_of(&whole[..3]);
    assert_eq!(
        check(&whole, Some(&earlier)).unwrap().kept_head_at,
        Some(3),
        "the file may be younger than the head"
    );
}

#[test]
fn a_torn_last_line_and_an_empty_file_are_not_verified() {
    let mut torn = chain();
    let half = torn[5].len() / 2;
    torn[5].truncate(half);
    assert_eq!(finding(&torn), (Tampering::Altered, 6, None));
    assert!(matches!(verify(&b""[..], None, &SignedHeads::default()), Err(Unverified::Found(_))));
    assert!(
        verify(&b""[..], Some(GENESIS), &SignedHeads::default()).is_ok(),
        "a chain without rows has this head"
    );
}

#[test]
fn a_chain_that_retention_shortened_builds_on_what_it_says() {
    let rest = &chain()[3..];
    let verified = check(rest, None).unwrap();
    assert_eq!((verified.first, verified.built_on), (4, Some(head_of(&chain()[..3]))));
    let forged = rows("ten_1", 1, &"1".repeat(64), 2);
    assert_eq!(finding(&forged), (Tampering::Altered, 1, Some(1)), "the first row of all builds on nothing");
}

#[test]
fn rows_of_another_chain_are_found_whatever_the_line_says() {
    let other = rows("ten_2", 1, GENESIS, 3);
    let mut mixed = chain();
    mixed[2].clone_from(&other[2]);
    assert_eq!(finding(&mixed), (Tampering::Altered, 3, Some(3)));
    let renamed: Vec<String> = other.iter().map(|row| row.replacen("ten_2", "ten_1", 1)).collect();
    assert_eq!(finding(&renamed), (Tampering::Altered, 1, Some(1)));
}

/// Returns the line that a server stores for the last of these rows.
fn signed(key: &muster_trust::PrivateKey, rows: &[String], at: &str) -> String {
    use base64::Engine as _;
    let last: serde_json::Value = serde_json::from_str(rows.last().unwrap()).unwrap();
    let (chain, sequence) = (last["chain"].as_str().unwrap(), last["sequence"].as_i64().unwrap());
    let hash = last["hash"].as_str().unwrap();
    let statement = format!("muster-audit-head v1\n{chain}\n{sequence}\n{hash}\n{at}\n");
    let signature = base64::engine::general_purpose::STANDARD.encode(key.sign(statement.as_bytes()));
    serde_json::json!({"chain": chain, "sequence": sequence, "hash": hash, "signed_at": at,
        "key_id": key.public().fingerprint(), "signature": signature})
    .to_string()
}

/// Returns a chain rewritten from the fourth row on, with all hashes recomputed.
fn rewritten() -> Vec<String> {
    let mut all = chain()[..3].to_vec();
    let mut previous = head_of(&all);
    for sequence in 4..=6 {
        let record =
            format!(r#"{{"id":"aud_{sequence}", "tenant_id":"ten_1","action":"tenant.forged","n":1.0}}"#);
        let hash = hash(&previous, sequence, &record);
        all.push(format!(
            r#"{{"chain":"ten_1","sequence":{sequence},"previous_hash":"{previous}","hash":"{hash}","record":{record}}}"#
        ));
        previous = hash;
    }
    all
}

#[test]
fn a_chain_that_was_rewritten_or_cut_contradicts_the_signed_heads() {
    let key = muster_trust::PrivateKey::generate_ed25519();
    let lines = [
        signed(&key, &chain()[..2], "t1"),
        signed(&key, &rows("platform", 1, GENESIS, 9), "t1"),
        signed(&key, &chain()[..5], "t2"),
    ];
    let keys = [key.public().clone()];
    let heads = SignedHeads::read(lines.join("\n").as_bytes(), &keys).unwrap();
    assert_eq!(checked(&chain(), None, &heads).unwrap().signed_heads, 2);

    let forged = rewritten();
    assert!(check(&forged, None).is_ok(), "in itself it is consistent");
    let finding = checked(&forged, None, &heads).unwrap_err();
    assert_eq!((finding.how, finding.sequence), (Tampering::Altered, Some(5)));

    let cut = &chain()[..4];
    assert!(check(cut, None).is_ok(), "in itself it is consistent");
    let finding = checked(cut, None, &heads).unwrap_err();
    assert_eq!((finding.how, finding.sequence), (Tampering::CutOff, Some(4)));
}

#[test]
fn heads_count_only_with_a_signature_of_a_given_key() {
    let (key, other) =
        (muster_trust::PrivateKey::generate_ed25519(), muster_trust::PrivateKey::generate_ed25519());
    let keys = [key.public().clone()];
    let good = signed(&key, &chain(), "t1");
    let read = |text: &str| SignedHeads::read(text.as_bytes(), &keys);
    assert!(read(&good).is_ok());
    assert!(read(&signed(&other, &chain(), "t1")).unwrap_err().contains("which was not given"));
    assert!(read(&good.replace("\"t1\"", "\"t2\"")).unwrap_err().contains("signature is invalid"));
    // The same row with two hashes: the platform signed the chain before and after it was rewritten.
    let both = format!("{good}\n{}", signed(&key, &rewritten(), "t2"));
    assert!(read(&both).unwrap_err().contains("was rewritten"));
}
