//go:build race

package redistest

func init() { UnderRace = true }
