// SPDX-License-Identifier: Apache-2.0

package conformance_test

import "slices"

// story is one behavior that the product relies on.
type story struct {
	name    string
	steps   []step
	cleanup []step
}

func stories(hooks *webhooks) []story {
	return slices.Concat(objectStories, patchStories, applyStories, deleteStories, listStories, watchStories, admissionStories(hooks))
}

const (
	pods     = "/api/v1/namespaces/NS/pods"
	web      = pods + "/web"
	configs  = "/api/v1/namespaces/NS/configmaps"
	settings = configs + "/settings"
	widgets  = "/apis/conformance.holdfast.dev/v1/namespaces/NS/widgets"
	gear     = widgets + "/gear"

	webPod         = `{"metadata":{"name":"web","labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	boundPod       = `{"metadata":{"name":"web"},"spec":{"nodeName":"node-a","containers":[{"name":"c","image":"i"}]}}`
	heldPod        = `{"metadata":{"name":"web","finalizers":["holdfast.dev/ip-allocation"]},"spec":{"nodeName":"node-a","containers":[{"name":"c","image":"i"}]}}`
	unboundHeldPod = `{"metadata":{"name":"web","finalizers":["holdfast.dev/ip-allocation"]},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	gearBody       = `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"spec":{"color":"red"}}`
	mapBody        = `{"metadata":{"name":"settings"},"data":{"a":"1"}}`
	unfinalize     = `{"metadata":{"$deleteFromPrimitiveList/finalizers":["holdfast.dev/ip-allocation"]}}`
)

var objectStories = []story{
	{name: "a pod is created, read, and there once", steps: []step{
		get(web), post(pods, webPod), get(web), post(pods, webPod)}},
	{name: "a namespace has to exist", steps: []step{post("/api/v1/namespaces/missing/pods", webPod)}},
	{name: "a generated name is unique", steps: []step{
		post(configs, `{"metadata":{"generateName":"x"}}`), post(configs, `{"metadata":{"generateName":"x"}}`), post(configs, `{"metadata":{}}`)}},
	{name: "kind, name and namespace of the body match the path", steps: []step{
		post(configs, mapBody), post(configs, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`),
		post(configs, `{"metadata":{"name":"a","namespace":"other"}}`), put(settings, `{"metadata":{"name":"other"}}`)}},
	{name: "an update is refused for an old version or another UID", steps: []step{
		post(configs, mapBody),
		put(settings, `{"metadata":{"name":"settings","resourceVersion":"RV(settings)"},"data":{"a":"2"}}`),
		put(settings, `{"metadata":{"name":"settings","resourceVersion":"1"},"data":{"a":"3"}}`),
		put(settings, `{"metadata":{"name":"settings","uid":"00000000-0000-0000-0000-000000000000"},"data":{"a":"3"}}`),
		put(settings, `{"metadata":{"name":"settings"},"data":{"a":"4"}}`), get(settings)}},
	{name: "an update that changes nothing keeps the version", steps: []step{
		post(configs, mapBody), put(settings, mapBody), patch(mergePatch, settings, `{"data":{"a":"1"}}`)}},
	{name: "an update of nothing is not found", steps: []step{put(settings, mapBody), patch(mergePatch, settings, `{}`), put(gear, gearBody)}},
	{name: "a custom resource is updated under its version only", steps: []step{
		post(widgets, gearBody), put(gear, gearBody),
		put(gear, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","resourceVersion":"RV(gear)"},"spec":{"color":"green"}}`)}},
	{name: "a lease is created by an update", steps: []step{
		put("/apis/coordination.k8s.io/v1/namespaces/NS/leases/l", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"x"}}`)}},
	{name: "a custom resource is pruned, completed and validated", steps: []step{
		post(widgets, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"spec":{"unknown":1,"color":"red"},"status":{"phase":"x"}}`),
		post(widgets, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"color":"blue"}}`),
		post(widgets, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":0}}`),
		post(widgets, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":100}}`),
		patch(mergePatch, gear, `{"spec":{"fixed":"a"}}`), patch(mergePatch, gear, `{"spec":{"fixed":"b"}}`)}},
	{name: "the status has an endpoint of its own", steps: []step{
		post(widgets, gearBody), get(gear),
		patch(mergePatch, gear+"/status", `{"metadata":{"labels":{"ignored":"x"}},"spec":{"color":"green"},"status":{"phase":"Ready"}}`),
		patch(mergePatch, gear, `{"status":{"phase":"ignored"}}`),
		patch(mergePatch, gear+"/status", `{"metadata":{"uid":"00000000-0000-0000-0000-000000000000"},"status":{"phase":"Other"}}`),
		patch(mergePatch, gear+"/status", `{"metadata":{"resourceVersion":"1"},"status":{"phase":"Old"}}`),
		get(gear + "/status"), get(settings + "/status")}},
	{name: "the status endpoint of a pod takes metadata, and no spec", steps: []step{
		post(pods, heldPod),
		patch(strategicPatch, web+"/status", `{"metadata":{"labels":{"a":"b"},"finalizers":["holdfast.dev/ip-allocation","other.dev/x"]},"spec":{"nodeName":"node-b"},"status":{"phase":"Running"}}`),
		patch(strategicPatch, web, `{"status":{"phase":"Failed"}}`), patch(strategicPatch, web, `{"spec":{"nodeName":"node-b"}}`)}},
	{name: "a pod is bound once", steps: []step{
		post(pods, webPod), post(web+"/binding", `{"metadata":{"name":"web"},"target":{"kind":"Node","name":"node-a"}}`), get(web),
		post(web+"/binding", `{"metadata":{"name":"web"},"target":{"kind":"Node","name":"node-b"}}`)}},
	{name: "generations count what is no status", steps: []step{
		post(widgets, gearBody), patch(mergePatch, gear, `{"metadata":{"labels":{"a":"b"}}}`), patch(mergePatch, gear, `{"spec":{"size":2}}`)}},
	{name: "a dry run changes nothing", steps: []step{
		post(configs+"?dryRun=All", mapBody), get(settings), post(configs, mapBody), patch(mergePatch, settings+"?dryRun=All", `{"data":{"a":"2"}}`),
		del(settings+"?dryRun=All", ""), get(settings)}},
	{name: "fields belong to who wrote them", steps: []step{
		post(configs, mapBody).by("one"), patch(mergePatch, settings, `{"data":{"b":"2"}}`).by("two"), patch(mergePatch, settings, `{"data":{"a":"3"}}`).by("two"),
		patch(jsonPatch, settings, `[{"op":"remove","path":"/data/b"}]`).by("one")}},
}

var patchStories = []story{
	{name: "a JSON patch tests what it replaces", steps: []step{
		post(widgets, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"spec":{"parts":{"1":{"id":"x","podref":"a/b"},"2":{"id":"y"}}}}`),
		patch(jsonPatch, gear, `[{"op":"test","path":"/spec/parts/1/id","value":"other"},{"op":"remove","path":"/spec/parts/1"}]`),
		patch(jsonPatch, gear, `[{"op":"test","path":"/metadata/resourceVersion","value":"1"},{"op":"remove","path":"/spec/parts/1"}]`),
		patch(jsonPatch, gear, `[{"op":"remove","path":"/spec/parts/9"}]`),
		patch(jsonPatch, gear, `[{"op":"test","path":"/metadata/uid","value":"UID(gear)"},{"op":"test","path":"/spec/parts/1/id","value":"x"},{"op":"remove","path":"/spec/parts/1"}]`),
		patch(jsonPatch, gear, `no patch`)}},
	{name: "a merge patch under a version or a UID", steps: []step{
		post(configs, mapBody), patch(mergePatch, settings, `{"metadata":{"resourceVersion":"RV(settings)"},"data":{"a":null,"b":"2"}}`),
		patch(mergePatch, settings, `{"metadata":{"resourceVersion":"1"},"data":{"b":"3"}}`),
		patch(mergePatch, settings, `{"metadata":{"uid":"00000000-0000-0000-0000-000000000000"},"data":{"b":"3"}}`),
		patch(mergePatch, settings, `no patch`)}},
	{name: "a strategic merge patch merges by keys", steps: []step{
		post(pods, unboundHeldPod),
		patch(strategicPatch, web, `{"metadata":{"uid":"UID(web)","finalizers":["other.dev/x"]}}`),
		patch(strategicPatch, web, `{"metadata":{"uid":"00000000-0000-0000-0000-000000000000","finalizers":["third.dev/x"]}}`),
		patch(strategicPatch, web+"/status", `{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"A","status":"True"}]}}`),
		patch(strategicPatch, web+"/status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`),
		patch(strategicPatch, web, unfinalize)}},
	{name: "a custom resource takes no strategic merge patch", steps: []step{post(widgets, gearBody), patch(strategicPatch, gear, `{"spec":{"size":2}}`)}},
}

var applyStories = []story{
	{name: "apply creates, changes and gives up fields", steps: []step{
		patch(applyPatch, gear, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","labels":{"a":"b"}},"spec":{"size":2,"color":"red"}}`).by("one"),
		patch(applyPatch, gear, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"spec":{"size":2}}`).by("one"),
		patch(applyPatch, gear, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"spec":{"size":2}}`).by("one")}},
	{name: "apply conflicts with other owners unless forced", steps: []step{
		patch(applyPatch, gear, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"spec":{"size":2}}`).by("one"),
		patch(applyPatch, gear, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"spec":{"size":3}}`).by("two"),
		patch(applyPatch, gear+"?force=true", `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"spec":{"size":3}}`).by("two")}},
	{name: "apply to the status keeps the items of others", steps: []step{
		post(widgets, gearBody),
		patch(applyPatch, gear+"/status?force=true", `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","uid":"UID(gear)"},"status":{"reports":[{"node":"a","verdict":"Release"}]}}`).by("agent-a"),
		patch(applyPatch, gear+"/status?force=true", `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","uid":"UID(gear)"},"status":{"reports":[{"node":"b","verdict":"DoNotRelease"}]}}`).by("agent-b"),
		patch(applyPatch, gear+"/status?force=true", `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","uid":"UID(gear)"},"status":{"reports":[]}}`).by("agent-a"),
		patch(applyPatch, gear+"/status?force=true", `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"status":{"reports":[{"node":"a","verdict":"Other"}]}}`).by("agent-a"),
		patch(applyPatch, gear+"/status?force=true", `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","uid":"00000000-0000-0000-0000-000000000000"},"status":{"phase":"X"}}`).by("agent-c")}},
	{name: "apply to a status that has only defaults", steps: []step{
		post(widgets, gearBody),
		patch(applyPatch, gear+"/status?force=true", `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","uid":"UID(gear)"},"status":{"reports":[{"node":"a","verdict":"Release"}]}}`).by("agent-a"),
		get(gear)}},
	{name: "apply under a UID creates nothing", steps: []step{
		patch(applyPatch, gear, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","uid":"00000000-0000-0000-0000-000000000000"},"spec":{"size":2}}`).by("one"),
		patch(applyPatch, gear+"/status", `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear"},"status":{"phase":"X"}}`).by("one")}},
	{name: "apply to a lease", steps: []step{
		patch(applyPatch, "/apis/coordination.k8s.io/v1/namespaces/NS/leases/l?force=true", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","annotations":{"a":"1"}},"spec":{"holderIdentity":"x"}}`).by("one"),
		patch(applyPatch, "/apis/coordination.k8s.io/v1/namespaces/NS/leases/l?force=true", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","annotations":{"a":"2"}}}`).by("one")}},
}

var deleteStories = []story{
	{name: "a pod that runs nowhere is deleted at once", steps: []step{post(pods, webPod), del(web, ""), get(web)}},
	{name: "a bound pod gets its grace period, and may lose it", steps: []step{
		post(pods, boundPod), del(web, ""), del(web, ""), del(web, `{"gracePeriodSeconds":60}`), del(web, `{"gracePeriodSeconds":5}`),
		del(web, `{"gracePeriodSeconds":0}`), get(web)}},
	{name: "a bound pod is deleted by force", steps: []step{post(pods, boundPod), del(web, `{"gracePeriodSeconds":0}`), get(web)}},
	{name: "a pod that has ended has no grace period", steps: []step{
		post(pods, boundPod), patch(strategicPatch, web+"/status", `{"status":{"phase":"Succeeded"}}`), del(web, ""), get(web)}},
	{name: "a finalizer holds a pod until it is taken off", steps: []step{
		post(pods, heldPod), del(web, ""), del(web, `{"gracePeriodSeconds":0}`), get(web), del(web, `{"gracePeriodSeconds":0}`),
		patch(strategicPatch, web+"/status", `{"status":{"phase":"Succeeded"}}`), patch(strategicPatch, web, unfinalize), get(web)}},
	{name: "a pod in its grace period outlives its finalizer", steps: []step{
		post(pods, heldPod), del(web, ""), patch(strategicPatch, web, unfinalize), get(web), del(web, `{"gracePeriodSeconds":0}`), get(web)}},
	{name: "a finalizer taken off through the status ends the pod", steps: []step{
		post(pods, heldPod), del(web, `{"gracePeriodSeconds":0}`), patch(strategicPatch, web+"/status", unfinalize), get(web)}},
	{name: "no finalizer comes to an object that is being deleted", steps: []step{
		post(pods, heldPod), del(web, ""), patch(strategicPatch, web, `{"metadata":{"finalizers":["other.dev/x"]}}`),
		patch(strategicPatch, web, `{"metadata":{"labels":{"a":"b"}}}`)}},
	{name: "a deletion under another UID or version is refused", steps: []step{
		post(pods, webPod), del(web, `{"preconditions":{"uid":"00000000-0000-0000-0000-000000000000"}}`), del(web, `{"preconditions":{"resourceVersion":"1"}}`),
		del(web, `{"preconditions":{"uid":"UID(web)","resourceVersion":"RV(web)"}}`), del(web, "")}},
	{name: "other objects are deleted without grace", steps: []step{
		post(configs, mapBody), del(settings, ""), get(settings), post(widgets, gearBody), del(gear, ""), get(gear)}},
	{name: "a finalizer holds a custom resource", steps: []step{
		post(widgets, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","finalizers":["a.dev/x"]}}`), del(gear, ""), del(gear, ""),
		patch(mergePatch, gear, `{"spec":{"size":3}}`), patch(mergePatch, gear, `{"metadata":{"finalizers":null}}`), get(gear)}},
	{name: "an eviction deletes", steps: []step{
		post(pods, boundPod), post(web+"/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web"},"deleteOptions":{"gracePeriodSeconds":7}}`), get(web),
		post(pods+"/other/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"other"}}`)}},
}

func podNamed(name, label, node string) step {
	return post(pods, `{"metadata":{"name":"`+name+`","labels":{"app":"`+label+`"}},"spec":{"nodeName":"`+node+`","containers":[{"name":"c","image":"i"}]}}`)
}

var listStories = []story{
	{name: "a list is selected by labels and fields", steps: []step{
		podNamed("a", "x", "node-a"), podNamed("b", "y", "node-b"), podNamed("c", "x", "node-b"),
		get(pods + "?labelSelector=app%3Dx").as(onlyMetadataList), get(pods + "?labelSelector=app+in+(x),app").as(onlyMetadataList),
		get(pods + "?fieldSelector=spec.nodeName%3Dnode-b").as(onlyMetadataList), get(pods + "?fieldSelector=metadata.name%3Da").as(onlyMetadataList),
		get(pods + "?fieldSelector=status.phase%3DPending").as(onlyMetadataList), get(pods + "?fieldSelector=spec.other%3Dx"), get(pods + "?labelSelector=%3D"),
		get("/api/v1/pods?labelSelector=app&fieldSelector=metadata.namespace%3DNS").as(onlyMetadataList)}},
	{name: "a list in pages is of one version", steps: []step{
		podNamed("a", "x", "node-a"), podNamed("b", "y", "node-b"), podNamed("c", "x", "node-b"),
		get(pods + "?limit=2").as(onlyMetadataList), del(pods+"/c", `{"gracePeriodSeconds":0}`), podNamed("d", "x", "node-b"),
		get(pods + "?limit=2&continue=CONTINUE").as(onlyMetadataList), get(pods).as(onlyMetadataList), get(pods + "?limit=2&continue=junk")}},
	{name: "a list of custom resources is selected by the fields of their definition", steps: []step{
		post(widgets, gearBody), post(widgets, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"plain"}}`),
		get(widgets + "?fieldSelector=spec.color%3Dred").as(onlyMetadataList), get(widgets + "?fieldSelector=spec.color%3D").as(onlyMetadataList),
		get(widgets + "?fieldSelector=spec.size%3D1")}},
	{name: "an object without its body", steps: []step{post(widgets, gearBody), get(gear).as(onlyMetadata), get(widgets).as(onlyMetadataList), get(widgets)}},
}

var watchStories = []story{
	{name: "a watch shows each version", steps: []step{
		post(configs, `{"metadata":{"name":"start"}}`), post(configs, mapBody), patch(mergePatch, settings, `{"data":{"a":"2"}}`), patch(mergePatch, settings, `{"data":{"a":"2"}}`),
		del(settings, ""), post(configs, `{"metadata":{"name":"end"}}`), watch(configs+"?watch=true&resourceVersion=RV(start)", "end")}},
	{name: "a watch of labels sees objects come and go", steps: []step{
		post(configs, `{"metadata":{"name":"start","labels":{"w":"x"}}}`), post(configs, mapBody), patch(mergePatch, settings, `{"metadata":{"labels":{"w":"x"}}}`),
		patch(mergePatch, settings, `{"data":{"a":"2"}}`), patch(mergePatch, settings, `{"metadata":{"labels":{"w":null}}}`), del(settings, ""),
		post(configs, `{"metadata":{"name":"end","labels":{"w":"x"}}}`), watch(configs+"?watch=true&labelSelector=w&resourceVersion=RV(start)", "end")}},
	{name: "a watch shows the steps of a pod's end", steps: []step{
		podNamed("start", "x", "node-a"), post(pods, heldPod), del(web, ""), del(web, `{"gracePeriodSeconds":0}`), patch(strategicPatch, web, unfinalize),
		podNamed("end", "x", "node-a"), watch(pods+"?watch=true&resourceVersion=RV(start)", "end")}},
	{name: "a watch shows a pod deleted by force", steps: []step{
		podNamed("start", "x", "node-a"), post(pods, boundPod), del(web, `{"gracePeriodSeconds":0}`),
		podNamed("end", "x", "node-a"), watch(pods+"?watch=true&resourceVersion=RV(start)", "end")}},
	{name: "a watch begins with what there is", steps: []step{
		post(configs, `{"metadata":{"name":"a","labels":{"w":"x"}}}`), post(configs, `{"metadata":{"name":"b","labels":{"w":"x"}}}`),
		watch(configs+"?watch=true&labelSelector=w&resourceVersion=0", "b"),
		watch(configs+"?watch=true&labelSelector=w&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "none"),
		watch(configs+"?watch=true&labelSelector=w&sendInitialEvents=true&allowWatchBookmarks=true", "none")}},
	{name: "a watch of metadata", steps: []step{
		post(widgets, gearBody), watch(widgets+"?watch=true&resourceVersion=0", "gear").as(onlyMetadata)}},
}

func admissionStories(hooks *webhooks) []story {
	const (
		registration = "/apis/admissionregistration.k8s.io/v1/"
		validating   = registration + "validatingwebhookconfigurations"
		mutating     = registration + "mutatingwebhookconfigurations"
		policies     = registration + "validatingadmissionpolicies"
		bindings     = registration + "validatingadmissionpolicybindings"
		selector     = `"namespaceSelector":{"matchLabels":{"story":"NS"}}`
	)
	hook := func(path, failure, operations, resources, conditions string) string {
		return `{"metadata":{"name":"NS"},"webhooks":[{"name":"hook.conformance.holdfast.dev","admissionReviewVersions":["v1"],"sideEffects":"None","failurePolicy":"` + failure +
			`","clientConfig":` + hooks.client(path) + `,` + selector + `,"rules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":[` + operations +
			`],"resources":[` + resources + `]}],"matchConditions":[` + conditions + `]}]}`
	}
	const onlyWatched = `{"name":"watched","expression":"(object == null ? oldObject : object).metadata.?labels[?'w'].orValue('') == 'x'"}`
	policy := `{"metadata":{"name":"NS"},"spec":{"failurePolicy":"Fail","matchConstraints":{"resourceRules":[{"apiGroups":["","conformance.holdfast.dev"],"apiVersions":["v1"],
		"operations":["CREATE","UPDATE","DELETE"],"resources":["configmaps","widgets","widgets/status","pods","pods/status"]}]},
		"matchConditions":[{"name":"watched","expression":"(object == null ? oldObject : object).metadata.?labels[?'w'].orValue('') == 'x'"}],
		"variables":[{"name":"sub","expression":"request.?subResource.orValue('')"}],
		"validations":[{"expression":"variables.sub != 'status'","reason":"Forbidden","message":"no status"},
			{"expression":"request.operation != 'DELETE'","messageExpression":"'not ' + oldObject.metadata.name"},
			{"expression":"object == null || object.metadata.name != 'broken' || object.metadata.labels['missing'] == 'x'","reason":"Forbidden"},
			{"expression":"object == null || object.metadata.name != 'ruled' || authorizer.group('holdfast.dev').resource('ipallocations').check('unhold').allowed()"}]}}`
	watched := func(name string) string { return `{"metadata":{"name":"` + name + `","labels":{"w":"x"}}}` }
	return []story{
		{name: "a webhook refuses what its conditions match", steps: []step{
			post(validating, hook("/refuse", "Fail", `"CREATE","UPDATE","DELETE"`, `"configmaps"`, onlyWatched)),
			post(configs+"?dryRun=All", watched("probe")).awaits(403), post(configs, watched("a")), post(configs, mapBody),
			patch(mergePatch, settings, `{"metadata":{"labels":{"w":"x"}}}`), patch(mergePatch, settings, `{"data":{"b":"2"}}`), del(settings, "")},
			cleanup: []step{del(validating+"/NS", "")}},
		{name: "a webhook changes what is created", steps: []step{
			post(mutating, hook("/label", "Ignore", `"CREATE"`, `"configmaps","pods"`, "")),
			{method: "POST", path: configs + "?dryRun=All", body: `{"metadata":{"name":"probe"}}`, awaitText: "webhook"},
			post(configs, mapBody), patch(mergePatch, settings, `{"data":{"b":"2"}}`), get(settings)},
			cleanup: []step{del(mutating+"/NS", "")}},
		{name: "a webhook that fails is ignored where its policy says so", steps: []step{
			post(validating, hook("/fail", "Ignore", `"CREATE"`, `"configmaps"`, "")), post(configs, mapBody),
			post(validating, `{"metadata":{"name":"NS-closed"},"webhooks":[{"name":"closed.conformance.holdfast.dev","admissionReviewVersions":["v1"],"sideEffects":"None","failurePolicy":"Fail","clientConfig":`+
				hooks.client("/fail")+`,`+selector+`,"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]}]}`),
			post(pods+"?dryRun=All", webPod).awaits(500), post(configs, watched("other"))},
			cleanup: []step{del(validating+"/NS", ""), del(validating+"/NS-closed", "")}},
		{name: "a policy refuses by reason, with its message, and where it cannot decide", steps: []step{
			post(configs, watched("kept")), post(widgets, `{"apiVersion":"conformance.holdfast.dev/v1","kind":"Widget","metadata":{"name":"gear","labels":{"w":"x"}}}`),
			post(policies, policy), post(bindings, `{"metadata":{"name":"NS"},"spec":{"policyName":"NS","validationActions":["Deny"],"matchResources":{`+selector+`}}}`),
			post(configs+"?dryRun=All", watched("broken")).awaits(422), post(configs, watched("fine")), post(configs, watched("ruled")), del(configs+"/kept", ""),
			patch(mergePatch, gear+"/status", `{"status":{"phase":"X"}}`), patch(mergePatch, gear, `{"spec":{"size":5}}`), post(configs, mapBody)},
			cleanup: []step{del(bindings+"/NS", ""), del(policies+"/NS", "")}},
	}
}
