"""Connections to the listener for nodes: of a stranger's address, and with the certificate of one node."""

import contextlib
import json
import socket
import ssl
import threading
import time

from callers import dial
from fleet import node_stays_in_use
from python_node import Node
from testbed import ATTACKER, AttackSucceeded

HOSTILE = "127.0.0.12"


def is_open(connection):
    """Whether the server has not closed the connection."""
    connection.settimeout(0.01)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK) if not isinstance(connection, ssl.SSLSocket) else connection.recv(1))
    except (TimeoutError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


def idle_connections(testbed):
    """4,200 connections of one address that say nothing, and 400 with the certificate of one node."""
    testbed.agent()
    hostile = Node(testbed, "hostile", HOSTILE).join(approve=False)
    idle, secure = [], []
    try:
        with testbed.bystanders():
            for _ in range(4200):
                with contextlib.suppress(OSError):
                    idle.append(dial(testbed.nodes_port, ATTACKER))
            for _ in range(400):
                connection = hostile.connect(hostile.certificate, hostile.key)
                with contextlib.suppress(OSError):
                    connection.connect()
                    secure.append(connection.sock)
            held = sum(is_open(connection) for connection in secure)
            # A new machine joins, and work on the other node goes on.
            began = time.monotonic()
            try:
                testbed.agent("late")
            except RuntimeError as error:
                raise AttackSucceeded("no machine can join") from error
            joined = time.monotonic() - began
            node_stays_in_use(testbed, nodes=2, others=["hostile"])
            waiting = sum(is_open(connection) for connection in idle)
        testbed.note(f"{held} of 400 with one certificate are open, {waiting} of {len(idle)} idle ones; a node joined in {joined:.1f} s")
        assert 0 < held <= 256, f"{held} connections of one node are open"
        assert waiting <= 256, f"{waiting} idle connections of one address are open"
    finally:
        for connection in idle + secure:
            connection.close()


def large_bodies(testbed):
    """One node sends the largest bodies there are by many connections at once, and again and again."""
    testbed.agent()
    hostile = Node(testbed, "hostile", HOSTILE).join(approve=False)
    places = [{"allocation_id": f"alc_{number:026d}", "incarnation": 1} for number in range(10_000)]
    inventory = {**hostile.inventory, "notes": ["x" * 1000] * 4000}
    body = json.dumps({"agent_version": "0.0.1", "address": HOSTILE, "inventory": inventory, "cells": [], "sandboxes": places})
    found, lock, ended = {}, threading.Lock(), threading.Event()

    def send():
        while not ended.is_set():
            status = 0
            connection = hostile.connect(hostile.certificate, hostile.key)
            with contextlib.suppress(OSError):
                connection.request("POST", "/node/v1/hello", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                status = answer.status
            connection.close()
            with lock:
                found[status] = found.get(status, 0) + 1

    senders = [threading.Thread(target=send, daemon=True) for _ in range(32)]
    with testbed.bystanders():
        for sender in senders:
            sender.start()
        try:
            time.sleep(5)
            node_stays_in_use(testbed, nodes=1, others=["hostile"])
        finally:
            ended.set()
            for sender in senders:
                sender.join()
    testbed.note(f"{len(body) / 1e6:.1f} MB each: {dict(sorted(found.items()))}")
    assert found.get(429, 0) > 0, f"as many as it likes: {found}"


ATTACKS = (idle_connections, large_bodies)
