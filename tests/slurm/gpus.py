"""Claimed GPUs become gres: as many as the worker holds, its own devices, and a job gets the number it requested."""


def run(world):
    world.ready(1)
    cluster = world.cluster("lab", 0, {"gpu_type": "simulated"})
    cluster.said("member", "add", "lab", "worker", "--gpus", "2", "--wait", "--timeout", "90s")
    assert cluster.slurm("sinfo", "-h", "-o", "%G") == "gpu:simulated:2", cluster.slurm("sinfo", "-h", "-o", "%G")
    seen = "echo $CUDA_VISIBLE_DEVICES"
    assert cluster.slurm("srun", "--gres=gpu:1", "sh", "-c", seen) == "0"
    assert cluster.slurm("srun", "--gres=gpu:simulated:2", "sh", "-c", seen) == "0,1"
    refused = cluster.exec("srun", "--immediate=5", "--gres=gpu:3", "true")
    assert refused.returncode != 0, refused
    devices = cluster.members()["lab-worker-1"]["adapter_detail"]["gpus"]
    assert len(devices) == 2, devices
    cluster.gone()
    print(f"    {devices} are gpu:simulated:2", flush=True)
