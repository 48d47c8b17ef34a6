import numpy as np
np.save("edge_index.npy", np.stack([ends.numpy() for ends in g.edges()]))
np.save("x.npy", g.ndata["feat"].numpy())
np.save("y.npy", g.ndata["label"].numpy())
for mask in ["train_mask", "val_mask", "test_mask"]: np.save(mask + ".npy", g.ndata[mask].numpy())
