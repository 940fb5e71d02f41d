//! Undeclared traffic is refused: between networks, between a network and its node, and with a spoofed sender.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::ground::{Ground, OUTSIDER, arrives, connects, inside, listen, pings, receiver, run, try_run};

#[test]
fn cells_of_two_networks_do_not_reach_each_other() {
    let ground = Ground::new(2);
    let (one, two) = (ground.net(1), ground.net(2));
    let (a, b, far) = (ground.cell(&one, 2), ground.cell(&two, 2), ground.cell(&two, 3));
    ground.tell(&[(&one, &[(&a, 0)]), (&two, &[(&b, 0), (&far, 1)])]);
    // Even if both have egress from their networks.
    ground.nodes[0].attach_with(&a, &one, true, &[]).unwrap();
    ground.nodes[0].attach_with(&b, &two, true, &[]).unwrap();
    ground.nodes[1].attach(&far, &two);
    assert!(b.pings(far.address), "the second network itself is fine");
    assert!(a.misses(b.address) && b.misses(a.address) && a.misses(far.address));
    for uplink in ["169.254.128.1", "169.254.128.2", "169.254.128.5", "169.254.128.6"] {
        assert!(a.misses(uplink.parse().unwrap()), "{uplink}");
        assert!(b.misses(uplink.parse().unwrap()), "{uplink}");
    }
}

#[test]
fn two_networks_may_have_the_same_addresses() {
    let ground = Ground::new(1);
    let one = ground.net(1);
    let mut two = ground.net(2);
    two.third = 1;
    let (a, b, c) = (ground.cell(&one, 2), ground.cell(&two, 2), ground.cell(&two, 3));
    for (cell, net) in [(&a, &one), (&b, &two), (&c, &two)] {
        ground.nodes[0].attach(cell, net);
    }
    assert!(b.pings(c.address));
    assert!(a.misses(c.address));
}

#[test]
fn the_node_does_not_reach_into_a_network_nor_a_cell_the_node() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (plain, out) = (ground.cell(&net, 2), ground.cell(&net, 3));
    let node = &ground.nodes[0];
    node.attach(&plain, &net);
    node.attach_with(&out, &net, true, &[]).unwrap();
    let _in_cell = listen(&out.path(), 8000);
    let _on_node = listen(node.path(), 8000);

    // The node has no route, and with a manual one it is still refused.
    assert!(!connects(node.path(), out.address, 8000));
    run(node.path(), "ip route add 10.64.1.0/24 via 169.254.128.2");
    assert!(!connects(node.path(), out.address, 8000) && !pings(node.path(), out.address));
    assert!(!pings(node.path(), Ipv4Addr::new(169, 254, 128, 2)), "not even to the router");
    run(node.path(), "ip route del 10.64.1.0/24");

    for cell in [&plain, &out] {
        for address in [node.settings.address, Ipv4Addr::new(169, 254, 128, 1)] {
            assert!(!connects(&cell.path(), address, 8000), "{} to {address}", cell.name);
            assert!(cell.misses(address));
        }
        assert!(cell.pings(net.gateway()));
        assert!(!connects(&cell.path(), net.gateway(), 22), "the gateway answers pings only");
    }
}

#[test]
fn a_spoofed_address_reaches_nothing() {
    let ground = Ground::new(2);
    let net = ground.net(1);
    let (a, b, far) = (ground.cell(&net, 2), ground.cell(&net, 3), ground.cell(&net, 4));
    ground.tell(&[(&net, &[(&a, 0), (&b, 0), (&far, 1)])]);
    ground.nodes[0].attach(&a, &net);
    ground.nodes[0].attach(&b, &net);
    ground.nodes[1].attach(&far, &net);
    assert!(a.pings(b.address) && a.pings(far.address));

    // A free address of the subnet, that of a neighbour, and that of the gateway. Packets are counted at their destination,
    // because a response would go elsewhere.
    for (number, spoofed) in ["10.64.1.9", "10.64.1.4", "10.64.1.1"].into_iter().enumerate() {
        run(&a.path(), &format!("ip addr add {spoofed}/32 dev eth0"));
        for (victim, port) in [(&b, 7000), (&far, 7100)] {
            let port = port + u16::try_from(number).unwrap();
            let socket = receiver(&victim.path(), port);
            let sent = inside(&a.path(), || {
                let from = std::net::UdpSocket::bind((spoofed, 0)).unwrap();
                from.send_to(b"I am not who I say", (victim.address, port))
            });
            if victim.address.to_string() != spoofed {
                sent.unwrap();
                assert!(socket.recv(&mut [0; 64]).is_err(), "{spoofed} to {}", victim.name);
                assert!(arrives(&a.path(), victim.address, port, &socket, b"it is me"));
            }
        }
        run(&a.path(), &format!("ip addr del {spoofed}/32 dev eth0"));
    }

    let b_port = receiver(&b.path(), 7500);
    run(&a.path(), "ip link set eth0 address 02:4d:0a:40:01:04");
    run(&a.path(), "ip neigh replace 10.64.1.3 lladdr 02:4d:0a:40:01:03 dev eth0");
    assert!(!arrives(&a.path(), b.address, 7500, &b_port, b"another's hardware address"));
    run(&a.path(), "ip link set eth0 address 02:4d:0a:40:01:02");
    run(&a.path(), "ip neigh replace 10.64.1.3 lladdr 02:4d:0a:40:01:03 dev eth0");
    assert!(arrives(&a.path(), b.address, 7500, &b_port, b"my own again"));
}

#[test]
fn an_arp_answer_for_another_is_not_heard() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (a, b, c) = (ground.cell(&net, 2), ground.cell(&net, 3), ground.cell(&net, 4));
    ground.nodes[0].attach(&a, &net);
    ground.nodes[0].attach(&b, &net);
    // The third is not attached, so that no legitimate cell can answer for it; the first would.
    run(&a.path(), &format!("ip addr add {}/32 dev eth0", c.address));
    assert!(b.misses(c.address));
    let known = run(&b.path(), &format!("ip neigh show {}", c.address));
    assert!(!known.contains("lladdr"), "{known}");
}

#[test]
fn only_ipv4_passes() {
    let ground = Ground::new(1);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    for cell in [&a, &b] {
        ground.nodes[0].attach(cell, &net);
        run(&cell.path(), &format!("ip -6 addr add fd00::{}/64 dev eth0 nodad", cell.address.octets()[3]));
    }
    assert!(try_run(&a.path(), "ping -6 -c 1 -W 0.5 fd00::3").is_err());
}

/// A packet between nodes for a cell: VXLAN, Ethernet, IPv4, UDP.
fn forged(vni: u32, from: Ipv4Addr, to: Ipv4Addr, port: u16) -> Vec<u8> {
    let mac = |address: Ipv4Addr| [[0x02, 0x4d].as_slice(), &address.octets()].concat();
    let said = b"from nowhere";
    let (udp, whole) = (8 + said.len(), 28 + said.len());
    let mut ip = vec![0x45, 0, 0, u8::try_from(whole).unwrap(), 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend(from.octets());
    ip.extend(to.octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![8, 0, 0, 0];
    packet.extend((vni << 8).to_be_bytes());
    packet.extend(mac(to));
    packet.extend(mac(from));
    packet.extend([8, 0]);
    packet.extend(ip);
    packet.extend(9999_u16.to_be_bytes());
    packet.extend(port.to_be_bytes());
    packet.extend([0, u8::try_from(udp).unwrap(), 0, 0]);
    packet.extend(said);
    packet
}

#[test]
fn a_packet_for_a_network_is_taken_only_from_its_nodes() {
    let ground = Ground::new(3);
    let net = ground.net(1);
    let (a, b) = (ground.cell(&net, 2), ground.cell(&net, 3));
    ground.tell(&[(&net, &[(&a, 0), (&b, 1)])]);
    ground.nodes[0].attach(&a, &net);
    ground.nodes[1].attach(&b, &net);
    let socket = receiver(&a.path(), 7000);
    let node = ground.nodes[0].settings.address;
    let packet = forged(net.vni, b.address, a.address, 7000);
    assert!(arrives(ground.nodes[1].path(), node, 4789, &socket, &packet), "the packet itself is good");
    assert!(!arrives(&ground.outside, node, 4789, &socket, &packet), "the outsider is no node");
    assert!(
        !arrives(ground.nodes[2].path(), node, 4789, &socket, &packet),
        "no cell of it is on the third node"
    );
    // Nor can a node of the network send for a cell that is not in it.
    let stranger = forged(net.vni, Ipv4Addr::new(10, 64, 1, 77), a.address, 7000);
    assert!(!arrives(ground.nodes[1].path(), node, 4789, &socket, &stranger));
}

#[test]
fn a_cell_cannot_speak_to_other_nodes_as_its_node_does() {
    let ground = Ground::new(2);
    let (mine, theirs) = (ground.net(1), ground.net(2));
    let (attacker, victim, friend) =
        (ground.cell(&mine, 2), ground.cell(&theirs, 2), ground.cell(&theirs, 3));
    ground.tell(&[(&mine, &[(&attacker, 0)]), (&theirs, &[(&friend, 0), (&victim, 1)])]);
    ground.nodes[0].attach_with(&attacker, &mine, true, &[]).unwrap();
    ground.nodes[1].attach(&victim, &theirs);
    let socket = receiver(&victim.path(), 7000);
    let packet = forged(theirs.vni, friend.address, victim.address, 7000);
    let target = ground.nodes[1].settings.address;
    assert!(arrives(ground.nodes[0].path(), target, 4789, &socket, &packet), "the packet itself is good");
    assert!(!arrives(&attacker.path(), target, 4789, &socket, &packet));
    // It does reach any other port of an outsider, because it has egress.
    let outside = receiver(&ground.outside, 4790);
    outside.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(arrives(&attacker.path(), OUTSIDER, 4790, &outside, b"hello"));
}
