// Package contract has what the packages about locks say to each other, and to package rlock:
// owners, kinds, errors, events, sites in the code, and the context of a hold. It knows of no locks
// and of no Redis.
package contract

//go:generate go run golang.org/x/tools/cmd/stringer@v0.52.0 -output names.go -type Way,LossReason
