// Package server is what Redis does to a plain lock, as the model that the explorer runs (internal/explore/server), in a
// form that a simulation of a million clients can afford: a step takes the same time whatever the length of the queue, and
// a client may have any number.
//
// It has plain and fair locks only, without fencing tokens and without foreign clients. That it answers as the model does
// is a test, with random commands; and that the model answers as the scripts do is one of package wire.
package server
