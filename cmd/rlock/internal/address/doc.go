// Package address makes the configuration of a connection from flags, the environment and a URL.
//
// A flag counts more than its variable in the environment, and each of them more than the same
// setting in the URL. Errors name no password: not even that of a URL which cannot be read.
package address
