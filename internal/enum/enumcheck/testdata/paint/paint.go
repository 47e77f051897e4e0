package paint

type Color uint8

const (
	Red Color = iota
	Green
	Blue

	Colors = iota // no color
)

type Gloss int

const (
	Dull   Gloss = -1
	Silken Gloss = 0
)

type Tin string

const (
	Small Tin = "s"
	Large Tin = "l"
)

type flags uint8

const (
	wet flags = 1 << iota
	old
)

const only Color = 7

var _ = []any{wet, old, only}

func panics(c Color) {
	switch c {
	case Red, Green, Blue:
	default:
		println("no color")
		panic(c)
	}
}

func leavesOut(c Color) {
	switch c {
	case Red:
	}
}

func guesses(t Tin) int {
	switch t {
	case Small:
		return 1
	default:
		return 2
	}
}

func doesNothing(g Gloss) {
	switch g {
	case Dull:
	default:
	}
}

func isNoEnum(s string, n int, f flags) {
	switch s {
	case "a":
	}
	switch {
	case n > 0:
	}
	switch f {
	case wet:
	}
}
