"""Nodes with simulated cells, which need neither root nor any tool."""

from world import Failed


def run(world):
    listen = world.free_port()
    said = world.up(2, "--simulated", "--nodes-listen", f"127.0.0.1:{listen}")
    assert said.count("ready") == 2, said
    project = world.project()
    project.allocate("a", gpus="8")
    world.stop()
    try:
        world.up(2)
    except Failed as refused:
        assert "are simulated" in str(refused), refused
    else:
        raise AssertionError("simulated nodes became real ones")
    world.up(2, "--simulated", "--nodes-listen", f"127.0.0.1:{listen}")
    project.release("a")
    assert "nothing runs any more" in world.stop()
