//go:build race

package rlock_test

const underRace = true
