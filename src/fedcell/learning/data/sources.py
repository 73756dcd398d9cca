"""Published datasets: the addresses and checksums of their files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

ARCHIVE = ".tar.gz"  # ends the name of a download that holds all files of a dataset


class Content(NamedTuple):
    """An unpacked file, with which every copy is compared, however it is packed."""

    size: int  # [byte]
    sha256: str


class Download(NamedTuple):
    """A file as it is offered online."""

    size: int  # [byte]
    md5: str  # as published


@dataclass(frozen=True)
class Source:
    """The files of a published dataset, their addresses and their folders."""

    name: str
    url: str  # the folder online, with its last slash
    folders: tuple[str, ...]  # in the data directory; a download goes to the first
    contents: Mapping[str, Content]  # by name, unpacked: to train with and then to test with
    downloads: Mapping[str, Download]  # each content packed as .gz, or one archive of them all
    image: tuple[int, int, int]  # height, width, channels
    sizes: tuple[int, int]  # samples to train with, to test with
    format: Literal["idx", "cifar"]
    fingerprint: str  # identifies the data of a run, also in files of 0.1


def _idx_contents(train_x: str, train_y: str, test_x: str, test_y: str) -> dict[str, Content]:
    return {
        "train-images-idx3-ubyte": Content(47_040_016, train_x),
        "train-labels-idx1-ubyte": Content(60_008, train_y),
        "t10k-images-idx3-ubyte": Content(7_840_016, test_x),
        "t10k-labels-idx1-ubyte": Content(10_008, test_y),
    }


MNIST = Source(
    name="mnist",
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    folders=("mnist", "MNIST/raw", "raw", ""),
    contents=_idx_contents(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    downloads={
        "train-images-idx3-ubyte.gz": Download(9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        "train-labels-idx1-ubyte.gz": Download(28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
        "t10k-images-idx3-ubyte.gz": Download(1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
        "t10k-labels-idx1-ubyte.gz": Download(4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
    },
    image=(28, 28, 1),
    sizes=(60_000, 10_000),
    format="idx",
    fingerprint="024f6596cb91b86a",
)

FASHION_MNIST = Source(
    name="fashion-mnist",
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    folders=("fashion-mnist", "FashionMNIST/raw", "raw", ""),
    contents=_idx_contents(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    downloads={
        "train-images-idx3-ubyte.gz": Download(26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        "train-labels-idx1-ubyte.gz": Download(29_515, "25c81989df183df01b3e8a0aad5dffbe"),
        "t10k-images-idx3-ubyte.gz": Download(4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
        "t10k-labels-idx1-ubyte.gz": Download(5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
    },
    image=(28, 28, 1),
    sizes=(60_000, 10_000),
    format="idx",
    fingerprint="c8f8aaad58c22359",
)

_BATCHES = {
    "data_batch_1": Content(
        31_035_704, "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd"
    ),
    "data_batch_2": Content(
        31_035_320, "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8"
    ),
    "data_batch_3": Content(
        31_035_999, "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9"
    ),
    "data_batch_4": Content(
        31_035_696, "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b"
    ),
    "data_batch_5": Content(
        31_035_623, "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154"
    ),
    "test_batch": Content(
        31_035_526, "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831"
    ),
}

CIFAR10 = Source(
    name="cifar10",
    url="https://www.cs.toronto.edu/~kriz/",
    folders=("cifar10", ""),
    contents={f"cifar-10-batches-py/{name}": file for name, file in _BATCHES.items()},
    downloads={"cifar-10-python.tar.gz": Download(170_498_071, "c58f30108f718f92721af3b95e74349a")},
    image=(32, 32, 3),
    sizes=(50_000, 10_000),
    format="cifar",
    fingerprint="d08dc7b75e1e6159",
)

PUBLISHED = {source.name: source for source in (MNIST, FASHION_MNIST, CIFAR10)}
