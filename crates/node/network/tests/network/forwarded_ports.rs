//! Egress and ingress, only where declared.

use std::net::Ipv4Addr;
use std::time::Duration;

use muster_wire::cell::{Ingress, Protocol};

use crate::ground::{Ground, OUTSIDER, arrives, connects, inside, listen, receiver, run, set, setting};

fn forwarded(port: u16, protocol: Protocol, node_port: u16) -> Ingress {
    Ingress { port, protocol, node_port: Some(node_port) }
}

#[test]
fn only_a_cell_that_declares_it_reaches_the_outside() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (plain, out) = (ground.cell(&net, 2), ground.cell(&net, 3));
    let node = &ground.nodes[0];
    node.attach(&plain, &net);
    node.attach_with(&out, &net, true, &[]).unwrap();
    let listener = listen(&ground.outside, 8000);
    assert!(connects(&out.path(), OUTSIDER, 8000) && out.pings(OUTSIDER));
    let (_, seen) = listener.accept().unwrap();
    assert_eq!(seen.ip(), node.settings.address, "outside it is the node that is seen");

    // Even if it adds a route itself.
    assert!(!connects(&plain.path(), OUTSIDER, 8000));
    run(&plain.path(), "ip route add default via 10.64.1.1");
    assert!(!connects(&plain.path(), OUTSIDER, 8000) && plain.misses(OUTSIDER));
    let datagrams = receiver(&ground.outside, 8000);
    assert!(arrives(&out.path(), OUTSIDER, 8000, &datagrams, b"hello"));
    assert!(!arrives(&plain.path(), OUTSIDER, 8000, &datagrams, b"not even one way"));

    // The metadata address of clouds.
    run(&ground.outside, "ip addr add 169.254.169.254/32 dev lo");
    run(node.path(), &format!("ip route add 169.254.169.254 via {OUTSIDER}"));
    assert!(connects(node.path(), Ipv4Addr::new(169, 254, 169, 254), 8000), "the node itself may");
    assert!(!connects(&out.path(), Ipv4Addr::new(169, 254, 169, 254), 8000));

    // A host outside cannot send an unrequested response.
    run(&ground.outside, &format!("ip route add 10.64.1.0/24 via {}", node.settings.address));
    run(&ground.outside, &format!("ip route add 169.254.128.0/19 via {}", node.settings.address));
    let _in_cell = listen(&out.path(), 8000);
    assert!(!connects(&ground.outside, out.address, 8000));
    assert!(!connects(&ground.outside, Ipv4Addr::new(169, 254, 128, 2), 8000));
}

#[test]
fn a_declared_port_is_reached_at_the_node_and_no_other_is() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (plain, open) = (ground.cell(&net, 2), ground.cell(&net, 3));
    let node = &ground.nodes[0];
    node.attach(&plain, &net);
    node.attach_with(
        &open,
        &net,
        false,
        &[forwarded(80, Protocol::Tcp, 30080), forwarded(53, Protocol::Udp, 30053)],
    )
    .unwrap();
    let (_web, _other) = (listen(&open.path(), 80), listen(&open.path(), 81));
    let address = node.settings.address;
    for from in [ground.outside.as_path(), node.path()] {
        assert!(connects(from, address, 30080));
        for port in [80, 81, 30081, 30053] {
            assert!(!connects(from, address, port), "{port}");
        }
    }
    let names = receiver(&open.path(), 53);
    names.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(arrives(&ground.outside, address, 30053, &names, b"who?"));
    // A requested response arrives.
    let answered = inside(&ground.outside, || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket.send_to(b"who?", (address, 30053)).unwrap();
        let (_, from) = names.recv_from(&mut [0; 16]).unwrap();
        names.send_to(b"you", from).unwrap();
        socket.recv_from(&mut [0; 16]).unwrap().1
    });
    assert_eq!(answered.to_string(), format!("{address}:30053"));
    // Ingress does not imply egress.
    let _outside = listen(&ground.outside, 8000);
    run(&open.path(), "ip route add default via 10.64.1.1");
    assert!(!connects(&open.path(), OUTSIDER, 8000));

    node.fabric.detach(open.id).unwrap();
    assert!(!connects(&ground.outside, address, 30080));
}

#[test]
fn a_port_of_the_node_leads_to_one_place_only() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    let node = &ground.nodes[0];
    node.attach_with(&a, &net, false, &[forwarded(80, Protocol::Tcp, 30080)]).unwrap();
    let refused = |ingress: &[Ingress], why: &str| {
        let error = node.attach_with(&b, &net, false, ingress).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(&[forwarded(80, Protocol::Tcp, 30080)], "already");
    refused(&[forwarded(80, Protocol::Tcp, 31000), forwarded(81, Protocol::Tcp, 31000)], "already");
    refused(&[forwarded(80, Protocol::Udp, 4789)], "reserved for the nodes");
    refused(&[Ingress { port: 80, protocol: Protocol::Tcp, node_port: None }], "choose one");
    let _own = listen(node.path(), 2222);
    refused(&[forwarded(80, Protocol::Tcp, 2222)], "the node itself listens");
    assert!(node.fabric.leftovers(b.id).unwrap().is_empty(), "what was refused left nothing");
    node.attach_with(&b, &net, false, &[forwarded(80, Protocol::Udp, 30080)]).unwrap();
}

#[test]
fn the_host_forwards_for_us_only_and_only_while_we_need_it() {
    let ground = Ground::new(2);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    let node = &ground.nodes[0];
    // Settings that the kernel changes along with forwarding, set as an administrator might have them.
    run(node.path(), "ip link add other type veth peer name other0");
    set(node.path(), "ip_forward", "0");
    set(node.path(), "conf/all/accept_redirects", "0");
    set(node.path(), "conf/other/forwarding", "1");
    let forwards = || setting(node.path(), "ip_forward");
    ground.tell(&[(&net, &[])]);
    let before = node.snapshot();
    assert_eq!(forwards(), "0");
    node.attach_with(&a, &net, true, &[]).unwrap();
    node.attach_with(&b, &net, false, &[forwarded(80, Protocol::Tcp, 30080)]).unwrap();
    assert_eq!(forwards(), "1");

    // Another machine must not get through the host because of that.
    run(node.path(), "ip addr add 198.51.100.1/24 dev lo");
    run(node.path(), "ip route add 203.0.113.0/24 via 192.0.2.2");
    run(ground.nodes[1].path(), "ip addr add 203.0.113.1/32 dev lo");
    run(&ground.outside, "ip route add 203.0.113.0/24 via 192.0.2.1");
    assert!(!crate::ground::pings(&ground.outside, Ipv4Addr::new(203, 0, 113, 1)));
    assert!(a.pings(Ipv4Addr::new(203, 0, 113, 1)), "a cell that may go out does");
    run(node.path(), "ip route del 203.0.113.0/24");
    run(node.path(), "ip addr del 198.51.100.1/24 dev lo");

    node.fabric.detach(a.id).unwrap();
    assert_eq!(forwards(), "1", "one cell still needs it");
    node.fabric.detach(b.id).unwrap();
    assert_eq!(node.snapshot(), before);
}

#[test]
fn a_host_that_forwards_of_its_own_accord_goes_on_to() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let cell = ground.cell(&net, 2);
    let node = &ground.nodes[0];
    set(node.path(), "ip_forward", "1");
    ground.tell(&[(&net, &[])]);
    let before = node.snapshot();
    node.attach_with(&cell, &net, true, &[]).unwrap();
    assert!(cell.pings(OUTSIDER));
    assert!(!run(node.path(), "nft list ruleset").contains("forwarding was off"));
    node.fabric.detach(cell.id).unwrap();
    assert_eq!(node.snapshot(), before);
}
