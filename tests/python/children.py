"""Children of a process that computes: ``python children.py METHOD MOMENT COUNT``.

``METHOD`` is a way in which multiprocessing starts them, ``MOMENT`` is ``after`` a call has ended
or ``during`` one of another thread. Ends with 0 if each of them computed what it should.
"""

import multiprocessing
import sys
import threading

import numpy as np

import raptors_arrow as ra

X = np.arange(600_000.0).reshape(2000, 300)


def child(i: int) -> None:
    """Compute on several threads, as the parent did."""
    ra.set_num_threads(2)
    right = ra.sum(X) == X.sum() and ra.mean(X[i:], axis=0).shape == (300,)
    sys.exit(0 if right else 3)


def main(method: str, moment: str, count: int) -> int:
    context = multiprocessing.get_context(method)
    ra.set_num_threads(2)
    ra.sum(np.ones((2000, 2000)))
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            ra.matmul(X, X[:300].T.copy())

    thread = threading.Thread(target=busy)
    if moment == "during":
        thread.start()
    codes = []
    for first in range(0, count, 5):
        some = [context.Process(target=child, args=(i,)) for i in range(first, first + 5)]
        for process in some:
            process.start()
        for process in some:
            process.join()
            codes.append(process.exitcode)
    stop.set()
    if moment == "during":
        thread.join()
    right = ra.sum(X) == X.sum()
    print(len(codes), "children")
    return 0 if codes == [0] * count and right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
