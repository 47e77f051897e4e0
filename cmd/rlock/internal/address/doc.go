// Package address makes the configuration of a connection from flags, the environment and a URL.
//
// A flag overrides its variable in the environment, and both override the same setting in the URL.
// Errors show no password, also if the URL cannot be read.
package address
