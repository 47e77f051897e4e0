//lint:file-ignore SA1019 ReplicaSelector, which is deprecated, is refused as well.

// Package valkeygo connects rlock to the server of a program that uses valkey-go, the fork of
// rueidis: it converts the option of valkey-go to the option of rueidis, which rlock uses.
//
//	servers := valkey.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}
//	data, err := valkey.NewClient(servers)
//	...
//	option, err := valkeygo.FromOption(servers)
//	...
//	client, err := rlock.New(rlock.Config{Redis: option})
//
// The connections are rlock's own, a few to each server: see [rlock.Config.Redis]. A client of
// valkey-go cannot be shared, as a rueidis client can.
package valkeygo

import (
	"fmt"

	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/go-rlock/rlock/rlock"
)

// FromOption returns the option for the same servers, with the same login, TLS, dialers and
// timeouts.
//
// It fails with [rlock.ErrInvalidConfig] if o sends commands to replicas, which have no locks:
// ReplicaOnly, SendToReplicas, ReplicaSelector, ReadNodeSelector or Standalone.ReplicaAddress is
// set.
//
// Left out are fields that neither change which server is used nor who logs in, since rlock has
// values that suit locks: the fields of the cache and of tracking, of pipelines, pools and buffers,
// of retries, and of zones, ConnLifetime, ClientNoTouch and ClientNoEvict.
func FromOption(o valkey.ClientOption) (rueidis.ClientOption, error) {
	for field, set := range map[string]bool{
		"ReplicaOnly": o.ReplicaOnly, "SendToReplicas": o.SendToReplicas != nil, "ReplicaSelector": o.ReplicaSelector != nil,
		"ReadNodeSelector": o.ReadNodeSelector != nil, "Standalone.ReplicaAddress": len(o.Standalone.ReplicaAddress) > 0,
	} {
		if set {
			return rueidis.ClientOption{}, fmt.Errorf("valkeygo: %w: %s is set, and replicas have no locks: give a copy of the option in which it is not set", rlock.ErrInvalidConfig, field)
		}
	}
	option := rueidis.ClientOption{
		InitAddress: o.InitAddress, SelectDB: o.SelectDB, ShuffleInit: o.ShuffleInit, ForceSingleClient: o.ForceSingleClient,
		Sentinel: rueidis.SentinelOption(o.Sentinel), ClusterOption: rueidis.ClusterOption(o.ClusterOption),
		Standalone: rueidis.StandaloneOption(o.Standalone),

		Username: o.Username, Password: o.Password, ClientName: o.ClientName, ClientSetInfo: o.ClientSetInfo,

		TLSConfig: o.TLSConfig, Dialer: o.Dialer, DialFn: o.DialFn, DialCtxFn: o.DialCtxFn,
		ConnWriteTimeout: o.ConnWriteTimeout, DisableTCPNoDelay: o.DisableTCPNoDelay, AlwaysRESP2: o.AlwaysRESP2,
	}
	if login := o.AuthCredentialsFn; login != nil {
		option.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			credentials, err := login(valkey.AuthCredentialsContext(c))
			return rueidis.AuthCredentials(credentials), err
		}
	}
	return option, nil
}
