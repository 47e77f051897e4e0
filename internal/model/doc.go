// Package model is a model of the protocol of the lock's queue, in Promela. Its
// tests check it with spin; see README.md.
package model
