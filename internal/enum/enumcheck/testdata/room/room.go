package room

import "paint"

func leavesOut(c paint.Color) {
	switch c {
	case paint.Red:
	}
}

func panics(c paint.Color) {
	switch c {
	case paint.Red:
	default:
		panic(c)
	}
}
