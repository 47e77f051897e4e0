package waitqueue_test

import (
	"fmt"

	"github.com/go-rlock/rlock/waitqueue"
)

func ExampleQueue() {
	var q waitqueue.Queue[string]
	for _, name := range []string{"ann", "ben", "cleo"} {
		w := waitqueue.NewWaiter[string]()
		w.Value = name
		q.Join(w)
	}

	first := q.Head()
	fmt.Println("first in line:", first.Value)
	fmt.Println("chosen:", q.Pass().Value)
	fmt.Println("chosen:", q.Pass().Value)
	fmt.Println("still waiting:", q.Len())
	// Output:
	// first in line: ann
	// chosen: ann
	// chosen: ben
	// still waiting: 1
}

func ExampleQueue_Leave() {
	var q waitqueue.Queue[string]
	ann, ben := waitqueue.NewWaiter[string](), waitqueue.NewWaiter[string]()
	q.Join(ann)
	q.Join(ben)

	q.Pass() // chooses ann, who is about to give up

	if !q.Leave(ann) {
		fmt.Println("ann was chosen already: she passes it on")
		q.Pass()
	}
	<-ben.C()
	fmt.Println("ben has it")
	// Output:
	// ann was chosen already: she passes it on
	// ben has it
}
