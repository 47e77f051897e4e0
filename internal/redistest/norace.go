//go:build !race

package redistest

// UnderRace tells whether the tests run under the race detector, which makes them many times slower.
const UnderRace = false
