"""What is said when a folder or a cluster is refused."""

from pathlib import Path

from weft.engines.ray.upload import explained, largest


def test_the_largest_parts_of_a_folder_are_named_without_what_stays_behind(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "pack").write_bytes(b"x" * 9000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"x" * 300)
    (tmp_path / "data" / "b").write_bytes(b"x" * 300)
    for name, size in (("train.py", 100), ("old.safetensors", 500), ("notes", 10)):
        (tmp_path / name).write_bytes(b"x" * size)
    assert largest(tmp_path) == [("data", 600), ("old.safetensors", 500), ("train.py", 100)]


def test_a_folder_that_is_too_large_is_told_with_what_to_leave_out(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * (3 << 20))
    error = ValueError("Package size (600MiB) exceeds the maximum size of 500.00MiB. To exclude large files, ...")
    text = explained(error, None, str(tmp_path))
    assert f"the folder '{tmp_path}' is too large to be shipped" in text
    assert "Package size (600MiB) exceeds the maximum size of 500.00MiB" in text
    assert "'data' (3 MiB)" in text
    assert ".rayignore" in text


def test_a_cluster_that_wants_a_token_is_told_from_one_that_cannot_be_used(tmp_path: Path) -> None:
    token = explained(RuntimeError("RPC error: InvalidAuthToken: ..."), "10.0.0.1:6379", str(tmp_path))
    assert "the Ray cluster at 10.0.0.1:6379 wants a token that it was not given" in token
    assert "RAY_AUTH_TOKEN" in token
    wrapped = ConnectionError("Failed to connect")
    wrapped.__context__ = RuntimeError("RPC error: InvalidAuthToken: ...")
    assert "wants a token" in explained(wrapped, "10.0.0.1:6379", str(tmp_path))
    other = explained(ConnectionError("no raylet here"), "10.0.0.1:6379", str(tmp_path))
    assert "cannot be used from here: no raylet here\n  Run this on one of its nodes" in other
    assert explained(OSError("no memory"), None, str(tmp_path)).startswith("Ray could not be started on this machine")
