use super::*;

fn testbed() -> Testbed {
    Testbed { key: "abc123".to_owned(), block: 2, run: PathBuf::from("/run/some where"), raised: true }
}

fn whole(nodes: u8) -> Sight {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let mut sight = Sight { machine: set(&["lo", "mupabc123"]), ..Sight::default() };
    let mut wire = set(&["lo", "br0", "machine"]);
    for name in names(nodes) {
        sight.inside.insert(name.clone(), set(&["lo", "eth0"]));
        wire.insert(name);
    }
    sight.inside.insert(WIRE.to_owned(), wire);
    sight
}

fn makes(steps: &[Step]) -> usize {
    let is_make = |step: &&Step| match step {
        Step::Make(_) => true,
        Step::Ip(_, words) => words.contains(&"add".to_owned()) || words.contains(&"del".to_owned()),
    };
    steps.iter().filter(is_make).count()
}

fn lines(steps: &[Step]) -> Vec<String> {
    let line = |step: &Step| match step {
        Step::Make(name) => format!("make {name}"),
        Step::Ip(place, words) => format!("{}: {}", place.as_deref().unwrap_or("machine"), words.join(" ")),
    };
    steps.iter().map(line).collect()
}

#[test]
fn plan_creates_nothing_that_already_exists() {
    assert_eq!(makes(&testbed().plan(3, &whole(3))), 0);
}

#[test]
fn a_further_node_is_all_that_is_made_when_one_more_is_wanted() {
    let lines = lines(&testbed().plan(3, &whole(2)));
    let made: Vec<&String> =
        lines.iter().filter(|line| line.starts_with("make") || line.contains(" add ")).collect();
    assert_eq!(
        made,
        [
            "make n3",
            "wire: link add name n3 mtu 1500 type veth peer name eth0 mtu 1500 netns /run/some where/abc123/net/n3"
        ]
    );
    assert!(lines.contains(&"n3: address replace 198.18.0.36/28 dev eth0".to_owned()), "{lines:?}");
}

#[test]
fn an_end_without_its_other_end_goes_before_both_are_made() {
    let mut sight = whole(1);
    // The bridge was lost and created again by an `up` that was killed.
    sight.inside.insert(WIRE.to_owned(), BTreeSet::from(["lo".to_owned(), "br0".to_owned()]));
    let lines = lines(&testbed().plan(1, &sight));
    let at = |text: &str| lines.iter().position(|line| line.starts_with(text)).unwrap();
    assert!(at("machine: link del dev mupabc123") < at("machine: link add name mupabc123"));
    assert!(at("n1: link del dev eth0") < at("wire: link add name n1"));
}

#[test]
fn a_path_with_a_space_stays_one_word() {
    let steps = testbed().plan(1, &Sight::default());
    let whole = |step: &Step| match step {
        Step::Ip(_, words) => words.iter().any(|word| word == "/run/some where/abc123/net/n1"),
        Step::Make(_) => false,
    };
    assert!(steps.iter().any(whole));
}

#[test]
fn testbeds_share_no_address() {
    let mut all = BTreeSet::new();
    for block in 0..BLOCKS {
        let testbed = Testbed { block, ..testbed() };
        assert!((0..=MOST_NODES).all(|number| all.insert(testbed.address(number))));
    }
    assert!(all.iter().all(|address| address.octets()[..3] == [198, 18, 0]));
}

#[test]
fn nodes_share_no_user_ids() {
    let testbed = |block| Testbed { block, ..testbed() };
    let bases: BTreeSet<u32> = (0..BLOCKS)
        .flat_map(|block| (1..=MOST_NODES).map(move |number| testbed(block).id_base(number)))
        .collect();
    assert_eq!(bases.len(), usize::from(BLOCKS) * usize::from(MOST_NODES));
    assert!(bases.iter().all(|base| base.checked_add(IDS_PER_NODE).is_some()));
}

#[test]
fn a_folder_that_holds_a_file_is_kept_and_the_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::write(top.join("a/kept"), "x").unwrap();
    assert!(remove_hollow(&top).unwrap_err().to_string().contains("a/kept still exists"));
    fs::remove_file(top.join("a/kept")).unwrap();
    remove_hollow(&top).unwrap();
    assert!(!top.exists());
    remove_hollow(&top).unwrap();
}

#[test]
fn two_platforms_of_one_machine_have_two_blocks_wherever_they_look_from() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = Blocks { folder: folder.path().join("blocks") };
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    // Neither has an address yet, as when the other's are in another network namespace.
    let free_block = |data| free_block(&blocks, data, &BTreeSet::new()).unwrap();
    let (first, held) = free_block(&one);
    let (second, _held) = free_block(&two);
    let ids = |block| Testbed { block, ..testbed() }.id_base(1);
    assert!(first != second && ids(first) != ids(second));
    drop(held);
    assert_eq!(free_block(&one).0, first, "what it had");
}

/// A testbed on the machine itself; removed with the test.
struct Raised(Testbed);

impl Drop for Raised {
    fn drop(&mut self) {
        for name in names(MOST_NODES) {
            let _ = self.0.remove_node(&name);
        }
        let _ = self.0.remove_wire();
    }
}

#[test]
fn a_testbed_is_created_twice_and_removed_twice_and_leaves_nothing() {
    assert!(rustix::process::geteuid().is_root(), "this test makes network namespaces: run it as root");
    let folder = tempfile::tempdir().unwrap();
    let key = format!("{:06x}", std::process::id() & 0x00ff_ffff);
    let run_dir = folder.path().join("run");
    let (block, _claim) =
        free_block(&Blocks { folder: folder.path().join("blocks") }, folder.path(), &used_blocks().unwrap())
            .unwrap();
    let raised = Raised(Testbed { key, block, run: run_dir.clone(), raised: true });
    let testbed = &raised.0;
    testbed.raise(2).unwrap();
    testbed.raise(2).unwrap();
    let mut ping: Vec<OsString> = inside(&testbed.namespace("n1")).into();
    ping.extend(["ping", "-c1", "-W2"].map(OsString::from));
    for number in [0, 2] {
        let mut ping = ping.clone();
        ping.push(testbed.address(number).to_string().into());
        run(&ping).unwrap();
    }
    for _ in 0..2 {
        for name in names(2) {
            testbed.remove_node(&name).unwrap();
        }
        testbed.remove_wire().unwrap();
    }
    assert!(!testbed.links(None).unwrap().contains(&testbed.machine_link()));
    assert!(!run_dir.join(&testbed.key).exists());
}
