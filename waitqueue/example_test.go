package waitqueue_test

import (
	"fmt"

	"github.com/go-rlock/rlock/waitqueue"
)

func ExampleQueue() {
	type call struct {
		name  string
		place waitqueue.Waiter[*call]
	}
	var q waitqueue.Queue[*call]
	ann, ben, cleo := &call{name: "ann"}, &call{name: "ben"}, &call{name: "cleo"}
	for _, c := range []*call{ann, ben, cleo} {
		c.place.Value = c
		q.Join(&c.place)
	}

	fmt.Println("ben leaves:", q.Leave(&ben.place))
	first := q.Head()
	fmt.Println("chosen:", first.Value.name, q.Leave(first))
	fmt.Println("ann was chosen before she left:", !q.Leave(&ann.place))
	fmt.Println("next:", q.Head().Value.name, "of", q.Len())
	// Output:
	// ben leaves: true
	// chosen: ann true
	// ann was chosen before she left: true
	// next: cleo of 1
}
