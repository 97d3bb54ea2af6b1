// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	simnodeapi "github.com/holdfast-dev/holdfast/hack/dev/simnode/api"
)

const jobName = "report"

// completedJob is a CNI DEL that is lost when a Job completes.
func completedJob() scenario {
	return scenario{
		name:  "completed-job-keeps-its-address",
		title: "A Job completes while CNI DEL cannot reach the API server, and its pod keeps the address",
		harm: "A Job and another pod fill a pool of two addresses. The Job completes while its node's CNI plugins cannot reach the API server, so " +
			"that its entry stays. The finished pod is kept, as those of Jobs are, and whereabouts' reconciler takes finished pods for living " +
			"ones: for as long as the Job is there, no other pod can start (whereabouts #598).",
		guard: "the kubelet has ended the pod by itself. Once that was seen for a while (releaseDelay) the node's agent is queried, and reports that the sandbox " +
			"is gone; without agents it is enough that the node is Ready and the address was on record for sandboxCreationMax. The entry is released, " +
			"the finished pod stays as it is, and the next pod starts.",
		play: playCompletedJob,
	}
}

func playCompletedJob(ctx context.Context, s *stage) error {
	pod, err := s.startJob(ctx)
	if err != nil {
		return err
	}
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventCutCNI, s.first); err != nil {
		return err
	}
	s.note("CNI on %s cannot reach the API server any more", s.first)
	patch := client.MergeFrom(pod.DeepCopy())
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, simnodeapi.RunAnnotation, "0s")
	if err := s.client.Patch(ctx, pod, patch); err != nil {
		return fmt.Errorf("ending the container of pod %s: %w", pod.Name, err)
	}
	if err := s.awaitSandboxEnd(ctx, pod); err != nil {
		return err
	}
	if err := s.awaitComplete(ctx); err != nil {
		return err
	}
	s.note("the Job is complete; its pod is kept")
	if err := s.cluster.SimNode().Do(ctx, simnodeapi.EventMendCNI, s.first); err != nil {
		return err
	}
	if err := s.third(ctx, s.first, "CNI reaches the API server again; "); err != nil || !s.guard {
		return err
	}
	return s.stillThere(ctx, pod)
}

// startJob starts the Job and pod two, which take every address there is, and returns the Job's pod.
func (s *stage) startJob(ctx context.Context) (*corev1.Pod, error) {
	spec := podSpec(s.first)
	spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobName},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: onNetwork(nil)}, Spec: spec,
		}},
	}
	if err := s.client.Create(ctx, job); err != nil {
		return nil, fmt.Errorf("creating Job %s: %w", jobName, err)
	}
	if _, err := s.createPod(ctx, "two", s.second, nil); err != nil {
		return nil, err
	}
	name := ""
	err := s.await(ctx, "the pod of Job "+jobName, podTimeout, func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		err := s.client.List(ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels{batchv1.JobNameLabel: jobName})
		if err != nil || len(pods.Items) == 0 {
			return false, "there is none", err
		}
		name = pods.Items[0].Name
		return true, "", nil
	})
	if err != nil {
		return nil, err
	}
	pod, addressJob, err := s.awaitAddress(ctx, name, "")
	if err != nil {
		return nil, err
	}
	_, addressTwo, err := s.awaitAddress(ctx, "two", "")
	if err != nil {
		return nil, err
	}
	s.note("the pod of Job %s (%s) and pod two (%s) run: the pool is full", jobName, addressJob, addressTwo)
	return pod, nil
}

func (s *stage) awaitComplete(ctx context.Context) error {
	return s.await(ctx, "Job "+jobName+" to be complete", podTimeout, func(ctx context.Context) (bool, string, error) {
		job := &batchv1.Job{}
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: jobName}, job); err != nil {
			return false, "", err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
				return true, "", nil
			}
		}
		return false, fmt.Sprintf("its conditions are %v", job.Status.Conditions), nil
	})
}

// stillThere checks that a finished pod is kept: that it gave its addresses back is no reason to delete it.
func (s *stage) stillThere(ctx context.Context, finished *corev1.Pod) error {
	pod, err := s.getPod(ctx, finished.Name)
	if err != nil {
		return err
	}
	if pod == nil || pod.UID != finished.UID || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodSucceeded {
		return fmt.Errorf("pod %s is expected to be there still, with phase Succeeded\n%s", finished.Name, s.dump(ctx))
	}
	s.note("the Job's pod still exists, and its address is released")
	return nil
}
