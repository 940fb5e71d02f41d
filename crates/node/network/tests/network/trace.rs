//! Surveys find everything, and removals leave no trace.

use muster_network::{NetworkResource, Owner, Where};
use muster_wire::cell::{Ingress, Protocol};

use crate::ground::{Ground, nft, run};

const NOTHING: [String; 0] = [];

#[test]
fn detach_removes_everything_of_ours_and_nothing_foreign() {
    let ground = Ground::new(2);
    let net = ground.net(1);
    let node = &ground.nodes[0];
    nft(
        node.path(),
        "table inet theirs { chain c { type filter hook forward priority 0; policy drop; tcp dport 5 counter accept; }; }",
    );
    nft(node.path(), "table ip muster_k { chain c { ip saddr 198.51.100.7 drop; }; }");
    run(node.path(), "ip link add theirs0 type veth peer name theirs1");
    run(node.path(), "ip link add muk11-000001 type bridge");
    let before: Vec<String> = ground.nodes.iter().map(|node| node.snapshot()).collect();

    let (a, b, c) = (ground.cell(&net, 2), ground.cell(&net, 3), ground.cell(&net, 4));
    ground.tell(&[(&net, &[(&a, 0), (&b, 0), (&c, 1)])]);
    let ingress = [Ingress { port: 80, protocol: Protocol::Tcp, node_port: Some(30080) }];
    node.attach_with(&a, &net, true, &ingress).unwrap();
    node.attach(&b, &net);
    ground.nodes[1].attach(&c, &net);
    assert!(a.pings(b.address) && a.pings(c.address));
    let during =
        run(node.path(), "nft list table inet theirs") + &run(node.path(), "nft list table ip muster_k");

    node.fabric.detach(a.id).unwrap();
    assert_eq!(node.fabric.leftovers(a.id).unwrap(), NOTHING);
    node.fabric.apply(&[]).unwrap();
    assert!(b.pings(net.gateway()), "a network with a cell in it stays, wanted or not");
    node.fabric.detach(b.id).unwrap();
    assert!(!node.fabric.survey().unwrap().is_empty());
    node.fabric.apply(&[]).unwrap();
    assert_eq!(node.fabric.survey().unwrap(), []);
    ground.nodes[1].fabric.remove_all().unwrap();
    assert_eq!(ground.nodes[1].fabric.survey().unwrap(), []);
    let after: Vec<String> = ground.nodes.iter().map(|node| node.snapshot()).collect();
    assert_eq!(after, before);
    let later =
        run(node.path(), "nft list table inet theirs") + &run(node.path(), "nft list table ip muster_k");
    assert_eq!(later, during);
}

#[test]
fn a_survey_finds_everything_and_knows_whose_it_is() {
    let ground = Ground::new(2);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    let node = &ground.nodes[0];
    ground.tell(&[(&net, &[(&a, 0), (&b, 1)])]);
    node.attach_with(&a, &net, true, &[]).unwrap();
    let found = node.fabric.survey().unwrap();
    assert!(found.iter().all(|found| found.recorded && found.owner.is_some()), "{found:#?}");
    let has = |thing, at, owner| {
        found.iter().any(|found| (found.thing, found.at, found.owner) == (thing, at, Some(owner)))
    };
    let (network, router) = (Owner::Network(net.id), Where::Router(net.vni));
    for (thing, at, owner) in [
        (NetworkResource::Namespace, Where::Node, network),
        (NetworkResource::Link, router, network),
        (NetworkResource::Link, router, Owner::Cell(a.id)),
        (NetworkResource::Link, Where::Node, network),
        (NetworkResource::Entry, router, Owner::Cell(a.id)),
        (NetworkResource::Entry, router, Owner::Neighbour(b.id)),
        (NetworkResource::Entry, router, network),
        (NetworkResource::Rule, router, Owner::Cell(a.id)),
        (NetworkResource::Rule, router, Owner::Neighbour(b.id)),
        (NetworkResource::Rule, Where::Node, network),
        (NetworkResource::Rule, Where::Node, Owner::Node),
        (NetworkResource::Socket, Where::Node, Owner::Node),
        (NetworkResource::Record, Where::Node, network),
        (NetworkResource::Record, Where::Node, Owner::Cell(a.id)),
    ] {
        assert!(has(thing, at, owner), "{thing:?} {at:?} {owner:?} in {found:#?}");
    }
}

#[test]
fn planted_leftovers_are_found() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (cell, stale_copy) = (ground.cell(&net, 2), ground.cell(&net, 9));
    let node = &ground.nodes[0];
    ground.tell(&[(&net, &[(&cell, 0), (&stale_copy, 0)])]);
    node.attach(&cell, &net);
    assert_eq!(node.fabric.leftovers(stale_copy.id).unwrap(), NOTHING);

    let router = node.router(&net);
    run(&router, "ip link add cell-0a400109 type veth peer name planted");
    run(&router, &format!("ip link set cell-0a400109 alias {}", stale_copy.id));
    run(&router, "bridge fdb add 02:4d:0a:40:01:09 dev muster-vxlan dst 192.0.2.9 self static");
    nft(
        &router,
        &format!("add element inet muster egress {{ {} comment \"{}\" }}", stale_copy.address, stale_copy.id),
    );
    nft(
        node.path(),
        &format!("add rule inet muster_k1 to_node ip saddr 10.9.9.9 drop comment \"{}\"", stale_copy.id),
    );
    let left = node.fabric.leftovers(stale_copy.id).unwrap();
    assert_eq!(left.len(), 4, "{left:#?}");
    let found = node.fabric.survey().unwrap();
    let unrecorded: Vec<String> =
        found.iter().filter(|found| !found.recorded).map(ToString::to_string).collect();
    assert_eq!(unrecorded.len(), 5, "the four, and the end of the pair that bears no name: {unrecorded:#?}");

    // A detach removes the link without a record, and an apply repairs the rest.
    node.fabric.detach(stale_copy.id).unwrap();
    node.fabric.apply(&[ground.state(&net, &[(&cell, 0), (&stale_copy, 0)])]).unwrap();
    assert_eq!(node.fabric.leftovers(stale_copy.id).unwrap(), NOTHING);
    assert!(node.fabric.survey().unwrap().iter().all(|found| found.recorded));
    assert!(cell.pings(net.gateway()));
}

#[test]
fn a_namespace_of_which_nothing_is_written_down_goes_unless_a_cell_is_in_it() {
    let ground = Ground::new(1);
    let (one, two) = (ground.net(1), ground.net(2));
    let cell = ground.cell(&two, 2);
    let node = &ground.nodes[0];
    ground.tell(&[(&one, &[]), (&two, &[])]);
    node.attach(&cell, &two);
    for part in ["networks", "cells"] {
        for entry in std::fs::read_dir(node.settings.folder.join(part)).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    let found = node.fabric.survey().unwrap();
    assert_eq!(
        found.iter().filter(|found| found.thing == NetworkResource::Namespace && !found.recorded).count(),
        2
    );
    assert!(!node.fabric.leftovers(cell.id).unwrap().is_empty(), "the kernel still has it");
    node.fabric.apply(&[]).unwrap();
    assert!(!node.router(&one).exists() && node.router(&two).exists());
    node.fabric.detach(cell.id).unwrap();
    node.fabric.apply(&[]).unwrap();
    assert_eq!(node.fabric.survey().unwrap(), []);
}
