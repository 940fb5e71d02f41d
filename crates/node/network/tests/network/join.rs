//! Cells of one network reach each other.

use std::net::Ipv4Addr;

use crate::ground::{Ground, eventually, run, try_run};

#[test]
fn cells_of_one_network_reach_each_other_on_one_node() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    let node = &ground.nodes[0];
    node.attach(&a, &net);
    node.attach(&b, &net);
    assert!(a.pings(b.address) && b.pings(a.address));
    assert!(a.pings(net.gateway()), "the gateway answers a ping");
}

#[test]
fn cells_reach_each_other_across_three_nodes() {
    let ground = Ground::new(3);
    let net = ground.net(1);
    let cells = [ground.cell(&net, 2), ground.cell(&net, 3), ground.cell(&net, 4)];
    let places = [(&cells[0], 0), (&cells[1], 1), (&cells[2], 2)];
    ground.tell(&[(&net, &places)]);
    for (cell, node) in places {
        ground.nodes[node].attach(cell, &net);
    }
    for from in &cells {
        for to in &cells {
            assert!(from.pings(to.address), "{} to {}", from.name, to.name);
        }
        assert!(from.pings(net.gateway()), "each node has the gateway");
        assert!(run(&from.path(), "ip neigh").lines().count() >= 2);
    }
    // A packet of the full MTU passes unfragmented.
    run(&cells[0].path(), &format!("ping -c 1 -W 1 -M do -s {} {}", 1450 - 28, cells[1].address));
}

#[test]
fn a_cell_in_a_user_namespace_is_attached_like_any_other() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let a = ground.cell_as(&net, 2, &["--user", "--map-root-user"]);
    let b = ground.cell(&net, 3);
    ground.nodes[0].attach(&a, &net);
    ground.nodes[0].attach(&b, &net);
    assert!(a.pings(b.address) && b.pings(a.address));
    let range = crate::ground::inside(&a.path(), || {
        std::fs::read_to_string("/proc/sys/net/ipv4/ping_group_range").unwrap()
    });
    assert_eq!(range.split_whitespace().collect::<Vec<_>>(), ["0", "2147483647"]);
}

#[test]
fn network_of_an_attached_cell_matches_the_request() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let cell = ground.cell(&net, 2);
    let fabric = &ground.nodes[0].fabric;
    assert_eq!(fabric.look(cell.id, cell.pid()).unwrap(), None);
    ground.nodes[0].attach(&cell, &net);
    let look = fabric.look(cell.id, cell.pid()).unwrap().unwrap();
    assert_eq!(look.address, Some(Ipv4Addr::new(10, 64, 1, 2)));
    assert_eq!((look.prefix, look.mac.as_str(), look.mtu), (24, "02:4d:0a:40:01:02", 1450));
    assert!(look.up && look.joined, "{look:?}");
    let routes = run(&cell.path(), "ip route show table all");
    assert_eq!(routes.matches("quickack 1").count(), 2, "{routes}");
    assert!(!routes.contains("default"), "{routes}");
    run(&ground.nodes[0].router(&net), "ip link set cell-0a400102 nomaster");
    assert!(!fabric.look(cell.id, cell.pid()).unwrap().unwrap().joined);
}

#[test]
fn a_neighbour_that_left_is_not_reached_and_one_that_moved_is() {
    let ground = Ground::new(3);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    ground.tell(&[(&net, &[(&a, 0), (&b, 1)])]);
    ground.nodes[0].attach(&a, &net);
    ground.nodes[1].attach(&b, &net);
    assert!(a.pings(b.address));
    ground.nodes[0].fabric.apply(&[ground.state(&net, &[(&a, 0)])]).unwrap();
    assert!(a.misses(b.address));
    let known = run(&ground.nodes[0].router(&net), "bridge fdb show dev muster-vxlan");
    assert!(!known.contains("dst"), "{known}");

    ground.nodes[1].fabric.detach(b.id).unwrap();
    let b = {
        let mut moved = ground.cell(&net, 3);
        moved.id = b.id;
        moved
    };
    ground.tell(&[(&net, &[(&a, 0), (&b, 2)])]);
    ground.nodes[2].attach(&b, &net);
    eventually("the cell is reached where it is now", || a.pings(b.address));
}

#[test]
fn names_are_those_of_the_neighbours() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    let fabric = &ground.nodes[0].fabric;
    assert_eq!(fabric.hosts(net.id).unwrap(), None);
    ground.tell(&[(&net, &[(&b, 0), (&a, 0)])]);
    assert_eq!(
        fabric.hosts(net.id).unwrap().unwrap(),
        "127.0.0.1 localhost\n10.64.1.2 c2 c2.net1.muster.internal\n10.64.1.3 c3 c3.net1.muster.internal\n"
    );
    let mut state = ground.state(&net, &[(&a, 0)]);
    state.neighbours[0].name = "x\n10.0.0.1 bank".to_owned();
    assert!(fabric.apply(&[state]).is_err());
    assert!(!fabric.hosts(net.id).unwrap().unwrap().contains("bank"));
}

#[test]
fn a_process_of_the_node_is_never_taken_for_a_cell() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let mut cell = ground.cell(&net, 2);
    let attachment = net.attachment(cell.address);
    let attach = |pid| muster_network::Attach {
        cell_id: cell.id,
        pid,
        attachment: &attachment,
        egress: false,
        ingress: &[],
    };
    let fabric = &ground.nodes[0].fabric;
    let error = fabric.attach(&attach(std::process::id())).unwrap_err().to_string();
    assert!(error.contains("node's own network"), "{error}");
    let pid = cell.pid();
    cell.child.kill().unwrap();
    cell.child.wait().unwrap();
    let error = fabric.attach(&attach(pid)).unwrap_err().to_string();
    assert!(error.contains("is gone"), "{error}");
    assert!(fabric.survey().unwrap().is_empty(), "nothing was begun");
    assert!(try_run(ground.nodes[0].path(), "nft list table inet muster_k1").is_err());
}

#[test]
fn a_cell_that_is_here_is_reached_here_though_what_was_told_lags_behind() {
    let ground = Ground::new(2);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    // The state lists the second on the other node, where it was until just now.
    ground.tell(&[(&net, &[(&a, 0), (&b, 1)])]);
    ground.nodes[0].attach(&a, &net);
    ground.nodes[0].attach(&b, &net);
    assert!(a.pings(b.address));
    ground.tell(&[(&net, &[(&a, 0), (&b, 1)])]);
    assert!(a.pings(b.address) && b.pings(a.address));
}

#[test]
fn a_cell_that_gets_another_address_has_only_that() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (a, mut b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    ground.nodes[0].attach(&a, &net);
    ground.nodes[0].attach_with(&b, &net, true, &[]).unwrap();
    let old = b.address;
    b.address = Ipv4Addr::new(10, 64, 1, 9);
    ground.nodes[0].attach_with(&b, &net, true, &[]).unwrap();
    assert!(a.pings(b.address) && a.misses(old));
    assert!(b.pings(crate::ground::OUTSIDER));
    assert!(ground.nodes[0].fabric.survey().unwrap().iter().all(|found| found.recorded));
}
