import numpy as np
np.save("edge_index.npy", data.edge_index.numpy())
np.save("x.npy", data.x.numpy())
np.save("y.npy", data.y.numpy())
for mask in ["train_mask", "val_mask", "test_mask"]: np.save(mask + ".npy", data[mask].numpy())
